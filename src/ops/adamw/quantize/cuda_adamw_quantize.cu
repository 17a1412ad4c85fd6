// A step of AdamW for a weight and both coded copies of it in one pass (coding/tiles.cuh): a thread loads 8 elements of
// a row of every operand, 16 bytes at a time and all of them before the first is used, steps and stores them, and keeps
// the new weight as it is stored, from which the codes are made. Scales of a row or of the whole tensor are known only
// after all of it was stepped: `ridge_adamw_quantize_amax` steps and collects the largest magnitudes,
// `ridge_adamw_quantize_scales` makes scales of them, and `ridge_adamw_quantize` reads the stored weight. With a given
// largest magnitude that is not 0 the first of these does nothing and the last steps.
//
// Bound by memory: every operand once (tensor, row: the weight twice), every code and scale once. The 64 weights of a
// thread leave room for two blocks of a multiprocessor, whose other rows are in flight while one is stepped. Of f32 a
// thread moves 32 bytes of a row in two halves, so that stores reach the second-level cache in twice as many parts as
// adamw's. Matrices whose rows do not start on 16 bytes, and the last tiles, go by elements.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "ROWS"
values = [1, 2]
default = 1
category = "tile"
title = "rows of every operand that a thread has in flight at once"
*/
/* ridge-kernel
op = "adamw_quantize"
# Two blocks of 256 threads share a multiprocessor, or one where random words take more.
max_registers = 255
sass = [{ opcode = "LDG" }, { opcode = "STG" }]
[define]
RIDGE_TYPE_PARAM = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_GRAD = { value = "wide_grad ? 0 : dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_STATE = { value = "state", names = ["kF32", "kBf16"] }
RIDGE_MASTER = { value = "master" }
RIDGE_FACTOR = { value = "factor" }
RIDGE_SKIP = { value = "skip" }
RIDGE_MAXIMIZE = { value = "maximize" }
RIDGE_ROWS_AT_ONCE = { value = "ROWS" }
RIDGE_FORMAT = { value = "format", names = ["kE4m3", "kE5m2"] }
RIDGE_GRANULARITY = { value = "scaling", names = ["kTensor", "kRow", "kVector", "kBlock", "kMx"] }
RIDGE_COPIES = { value = "copies", names = ["kAsIs", "kTransposed", "kBoth"] }
RIDGE_STOCHASTIC = { value = "rounding" }
RIDGE_AMAX = { value = "amax" }
[configs]
default = { }
two_rows = { ROWS = 2 }
[variants]
f32_block_both = { case = "adamw_quantize rows=14336 cols=4096 dtype=f32 copies=both" }
f32_block = { case = "adamw_quantize rows=14336 cols=4096 dtype=f32 copies=row" }
f32_block_t = { case = "adamw_quantize rows=14336 cols=4096 dtype=f32 copies=column" }
f32_block_both_factor_skip = { case = "adamw_quantize rows=14336 cols=4096 dtype=f32 factor=1 skip=1 maximize=1 copies=both" }
f32_vector_both = { case = "adamw_quantize rows=14336 cols=4096 dtype=f32 scaling=1x128 copies=both" }
f32_mx_both = { case = "adamw_quantize rows=14336 cols=4096 dtype=f32 scaling=mx copies=both" }
f32_row_both = { case = "adamw_quantize rows=14336 cols=4096 dtype=f32 scaling=row copies=both" }
f32_tensor_both = { case = "adamw_quantize rows=14336 cols=4096 dtype=f32 scaling=tensor copies=both" }
f32_tensor_both_given = { case = "adamw_quantize rows=14336 cols=4096 dtype=f32 scaling=tensor copies=both amax=given" }
f32_state_bf16_block_both = { case = "adamw_quantize rows=14336 cols=4096 dtype=f32 state=bf16 factor=1 copies=both" }
f32_vector_both_stochastic = { case = "adamw_quantize rows=14336 cols=4096 dtype=f32 scaling=1x128 copies=both format=e5m2 rounding=stochastic" }
bf16_master_block_both = { case = "adamw_quantize rows=8192 cols=8192 master=1 copies=both" }
bf16_master_wide_grad_block_both = { case = "adamw_quantize rows=8192 cols=8192 master=1 wide_grad=1 factor=1 skip=1 copies=both" }
bf16_master_vector_both = { case = "adamw_quantize rows=8192 cols=8192 master=1 factor=1 scaling=1x128 copies=both" }
bf16_master_tensor_given = { case = "adamw_quantize rows=8192 cols=8192 master=1 scaling=tensor amax=given copies=both" }
bf16_block_both = { case = "adamw_quantize rows=8192 cols=8192 copies=both", every = true }
bf16_state_bf16_vector_both = { case = "adamw_quantize rows=8192 cols=8192 state=bf16 scaling=1x128 copies=both", every = true }
bf16_row_both = { case = "adamw_quantize rows=8192 cols=8192 scaling=row copies=both", every = true }
f16_e5m2_mx_both = { case = "adamw_quantize rows=8192 cols=8192 dtype=f16 format=e5m2 scaling=mx copies=both", every = true }
f16_master_skip_block_both = { case = "adamw_quantize rows=8192 cols=8192 dtype=f16 master=1 factor=1 skip=1 copies=both" }
bf16_block_both_stochastic = { case = "adamw_quantize rows=8192 cols=8192 copies=both rounding=stochastic", every = true }
*/
/* ridge-launch
[[value]]
name = "plain"
expression = "copies != 1"
[[value]]
name = "transposed"
expression = "copies != 0"
[[value]]
name = "known_at_the_end"
expression = "scaling < 2"
[[value]]
name = "tile_cols"
expression = "ceil_div(cols, 128)"
[[needs]]
expression = "ROWS == 1 || (master == 0 && dtype != 0)"
reason = "64 weights of f32 leave a thread no registers for a second row in flight"
[[needs]]
expression = "ceil_div(rows, 128) * tile_cols <= 2147483647"
reason = "a grid has at most 2147483647 tiles of 128 x 128"
# The memory of scales known at the end holds zeros, then largest magnitudes, then scales. The scale of a tensor is one
# for both copies, so its magnitude is collected once, with the first.
[[clear]]
operand = "scale"
bytes = "scale_shape0 * scale_bytes"
when = "known_at_the_end && plain"
[[clear]]
operand = "scale_t"
bytes = "scale_t_shape0 * scale_t_bytes"
when = "known_at_the_end && transposed && (scaling == 1 || plain == 0)"
[[clear]]
operand = "found"
bytes = "4"
when = "amax"
# The numbers of a step are made of the call's scalars in fp64 and rounded once.
[[struct]]
name = "parameters"
members = [
  { operand = "grad" }, { i64 = "grad_stride0" }, { operand = "param" }, { i64 = "param_stride0" },
  { operand = "exp_avg" }, { i64 = "exp_avg_stride0" }, { operand = "exp_avg_sq" }, { i64 = "exp_avg_sq_stride0" },
  { operand = "master", when = "master" }, { i64 = "master_stride0", when = "master" },
  { operand = "factor", when = "factor" }, { operand = "skip", when = "skip" },
  { f32 = "1 - lr * weight_decay" }, { f32 = "1 - beta1" }, { f32 = "beta2" }, { f32 = "1 - beta2" },
  { f32 = "lr / correction1" }, { f32 = "1 / correction2 ^ 0.5" }, { f32 = "eps" },
  { u32 = "grad_align >= 16" }, { u32 = "param_align >= 16" }, { u32 = "exp_avg_align >= 16" }, { u32 = "exp_avg_sq_align >= 16" },
  { u32 = "master_align >= 16", when = "master" },
  { operand = "q", when = "plain" }, { operand = "scale", when = "plain" },
  { operand = "q_t", when = "transposed" }, { operand = "scale_t", when = "transposed" }, { operand = "random", when = "rounding" },
  { i64 = "q_stride0", when = "plain" }, { i64 = "scale_stride0", when = "plain && scaling > 1" },
  { i64 = "q_t_stride0", when = "transposed" }, { i64 = "scale_t_stride0", when = "transposed && scaling > 1" },
  { i64 = "rows" }, { i64 = "cols" }, { u32 = "tile_cols" }, { u32 = "scale" },
  { u32 = "q_align >= 8", when = "plain" }, { u32 = "q_t_align >= 16", when = "transposed" },
  { operand = "amax", when = "amax" }, { operand = "found", when = "amax" },
]
[[kernel]]
symbol = "ridge_adamw_quantize_amax"
grid = ["ceil_div(rows, 128) * tile_cols"]
block = [256]
when = "known_at_the_end"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_adamw_quantize_scales"
grid = ["ceil_div(scaling == 0 ? 1 : plain * rows + transposed * cols, 256)"]
block = [256]
when = "known_at_the_end"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_adamw_quantize"
grid = ["ceil_div(rows, 128) * tile_cols"]
block = [256]
args = [{ struct = "parameters" }]
*/
// clang-format on

#include "../../../device/cuda/kernel/chunk.cuh"
#include "../../coding/elements.cuh"
#include "../step.cuh"

namespace ridge::cuda {

// Eight elements of a row of an operand, packed as they are stored.
template <Number kType>
struct Eight : Numbers<kType, kSide> {
  using Base = Numbers<kType, kSide>;
  using Base::kWords;
  using Base::words;

  static __device__ __forceinline__ u8* place(const StoredMatrix& m, i64 row, i64 col) {
    return static_cast<u8*>(const_cast<void*>(m.data)) + (row * m.stride + col) * Base::kBytes;
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (u32 w = 0; w < kWords; ++w) words[w] = 0;
  }
  // The first `count` of them, then zeros; `whole`: all, from 16 bytes. Of memory that this thread may write
  // afterwards, so not by the path of read-only data.
  __device__ __forceinline__ void load(const u8* from, u32 count, bool whole) {
    if (whole) {
#pragma unroll
      for (u32 w = 0; w < kWords; w += 4) {
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[w]), "=r"(words[w + 1]), "=r"(words[w + 2]), "=r"(words[w + 3])
                     : "l"(from + 4 * w)
                     : "memory");
      }
      return;
    }
    float values[kSide];
#pragma unroll
    for (u32 j = 0; j < kSide; ++j) values[j] = j < count ? load_number<kType>(from, j) : 0.0f;
    this->set(values);
  }
  __device__ __forceinline__ void store(u8* to, u32 count, bool whole) const {
    if (whole) return this->store_global(to);
#pragma unroll
    for (u32 j = 0; j < kSide; ++j) {
      if (j < count) store_number<kType>(to, j, (*this)[j]);
    }
  }
};

// What is stepped.
struct Weights {
  static constexpr Number kParam = Number::RIDGE_TYPE_PARAM, kGrad = Number::RIDGE_TYPE_GRAD;
  static constexpr Number kState = Number::RIDGE_TYPE_STATE;
  static constexpr bool kMaster = RIDGE_MASTER != 0, kFactor = RIDGE_FACTOR != 0, kSkip = RIDGE_SKIP != 0;
  static constexpr bool kMaximize = RIDGE_MAXIMIZE != 0;
  static constexpr Number kStored = kMaster ? Number::kF32 : kParam;  // of what is coded

  StoredMatrix grad, param, mean, square, master;  // mean: exp_avg; square: exp_avg_sq
  const float *factor, *skip;
  StepNumbers numbers;
  u32 aligned_grad, aligned_param, aligned_mean, aligned_square, aligned_master;  // rows start on 16 bytes

  // A row of this thread, of every operand.
  struct Row {
    Eight<kGrad> grad;
    Eight<kStored> weight;
    Eight<kState> mean, square;
  };

  __device__ __forceinline__ bool aligned() const {
    const bool others = aligned_grad != 0 && aligned_param != 0 && aligned_mean != 0 && aligned_square != 0;
    return others && (!kMaster || aligned_master != 0);
  }
  __device__ __forceinline__ u8* stored(i64 row, i64 col) const {
    return Eight<kStored>::place(kMaster ? master : param, row, col);
  }

  __device__ __forceinline__ void load_row(Row& r, i64 row, i64 col, u32 count, bool whole) const {
    r.grad.load(Eight<kGrad>::place(grad, row, col), count, whole);
    r.weight.load(stored(row, col), count, whole);
    r.mean.load(Eight<kState>::place(mean, row, col), count, whole);
    r.square.load(Eight<kState>::place(square, row, col), count, whole);
  }
  // Steps the row and stores it; the weight stays in `r` as it was stored, with zeros behind the first `count`.
  __device__ __forceinline__ void step_row(Row& r, float by, i64 row, i64 col, u32 count, bool whole) const {
    float w[kSide], m[kSide], v[kSide];
#pragma unroll
    for (u32 j = 0; j < kSide; ++j) {
      const float given = kMaximize ? -r.grad[j] : r.grad[j], g = kFactor ? given * by : given;
      w[j] = r.weight[j], m[j] = r.mean[j], v[j] = r.square[j];
      step_element(numbers, g, w[j], m[j], v[j]);
      if (j >= count) w[j] = 0.0f;  // of zeros, with an eps of 0, it is none
    }
    r.mean.set(m), r.square.set(v), r.weight.set(w);
    r.mean.store(Eight<kState>::place(mean, row, col), count, whole);
    r.square.store(Eight<kState>::place(square, row, col), count, whole);
    r.weight.store(stored(row, col), count, whole);
    if constexpr (kMaster) {
      Eight<kParam> rounded;
      rounded.set(w);
      rounded.store(Eight<kParam>::place(param, row, col), count, whole);
    }
  }
};

// The elements are the new weight as it is stored; where it is not there yet, loading them makes the step.
struct Source {
  static constexpr Element kType = Weights::kMaster ? Element::kF32 : Element::RIDGE_TYPE_PARAM;
  static constexpr bool kReadBefore = false, kHalves = false;
  static constexpr u32 kAtOnce = RIDGE_ROWS_AT_ONCE;

  const Weights& w;
  bool stepped;  // by a launch before

  __device__ __forceinline__ void load(i64 rows, i64 cols, i64 row, i64 col, Packed<kType>::Square& to) const {
    const bool steps = !stepped && !(Weights::kSkip && *w.skip != 0.0f);
    const float factor = Weights::kFactor ? *w.factor : 1.0f;
    const u32 count = static_cast<u32>(max(min(cols - col, static_cast<i64>(kSide)), 0ll));
    const bool whole = count == kSide && w.aligned();
#pragma unroll
    for (u32 first = 0; first < kSide; first += kAtOnce) {
      Weights::Row r[kAtOnce];
#pragma unroll
      for (u32 i = 0; i < kAtOnce; ++i) {
        const i64 at = row + first + i;
        if (at < rows && count != 0) {
          steps ? w.load_row(r[i], at, col, count, whole) : r[i].weight.load(w.stored(at, col), count, whole);
        } else {
          r[i].weight.clear();
        }
      }
#pragma unroll
      for (u32 i = 0; i < kAtOnce; ++i) {
        const i64 at = row + first + i;
        if (steps && at < rows && count != 0) w.step_row(r[i], factor, at, col, count, whole);
#pragma unroll
        for (u32 word = 0; word < Packed<kType>::kWords; ++word) to[first + i][word] = r[i].weight.words[word];
      }
    }
  }
};

}  // namespace ridge::cuda

#include "../../coding/tiles.cuh"

namespace ridge::cuda {

struct AdamwQuantizeParameters {
  Weights weights;
  TileParameters tile;
};

namespace {

// Unlike kBlocks: elements of 16 bits are packed, and what they are made of takes more registers than they do.
constexpr u32 kResident = kStochastic ? 1 : 2;

// Whether ridge_adamw_quantize_amax stepped.
__device__ __forceinline__ bool stepped_before(const TileParameters& p) {
  if constexpr (kAmaxGiven) return given_amax(p) == 0;
  return kGiven;
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(256, ridge::cuda::kResident)
    ridge_adamw_quantize(const __grid_constant__ ridge::cuda::AdamwQuantizeParameters p) {
  ridge::cuda::write_codes({p.weights, ridge::cuda::stepped_before(p.tile)}, p.tile);
}

extern "C" __global__ void __launch_bounds__(256, 2)
    ridge_adamw_quantize_amax(const __grid_constant__ ridge::cuda::AdamwQuantizeParameters p) {
  ridge::cuda::collect_largest({p.weights, false}, p.tile);
}

extern "C" __global__ void __launch_bounds__(256)
    ridge_adamw_quantize_scales(const __grid_constant__ ridge::cuda::AdamwQuantizeParameters p) {
  ridge::cuda::make_scales(p.tile);
}
