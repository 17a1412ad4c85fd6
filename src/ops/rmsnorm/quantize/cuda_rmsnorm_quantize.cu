// RMSNorm of a matrix in 8-bit floats with scales, and the same of its transpose, in two launches:
// `ridge_rmsnorm_quantize_rows` reads x (and the residual), writes the sum and the factor of every row, and
// `ridge_rmsnorm_quantize` reads what is normalised once more and writes both copies in tiles of 128 x 128
// (coding/tiles.cuh), from the end, because what was read last is still in the second-level cache. For scales of a row
// or of the whole tensor `ridge_rmsnorm_quantize_amax` and `ridge_rmsnorm_quantize_scales` come in between.
//
// Bound by memory: x and the residual once, what is normalised twice (its scales are of rows, or of the tensor: three
// times), the sum, every code and scale once. A warp takes a row of up to 8 KiB, a block a longer one; of short rows
// eight are side by side in a block. Loses to a kernel that keeps whole rows until their codes are known, which can
// have no transposed copy. Matrices whose rows do not start on 16 bytes, and what lies behind whole chunks, go by
// elements.

// clang-format off
/* ridge-kernel
op = "rmsnorm_quantize"
# Two blocks of 256 threads share a multiprocessor, or one where random words take more.
max_registers = 255
sass = [{ opcode = "LDG" }]
[define]
RIDGE_TYPE = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_W = { value = "weight == 2 ? 0 : dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_WEIGHT = { value = "weight != 0" }
RIDGE_ZERO_CENTRED = { value = "zero_centred" }
RIDGE_RESIDUAL = { value = "residual" }
RIDGE_LANES = { value = "lanes" }
RIDGE_FORMAT = { value = "format", names = ["kE4m3", "kE5m2"] }
RIDGE_GRANULARITY = { value = "scaling", names = ["kTensor", "kRow", "kVector", "kBlock", "kMx"] }
RIDGE_COPIES = { value = "copies", names = ["kAsIs", "kTransposed", "kBoth"] }
RIDGE_STOCHASTIC = { value = "rounding" }
RIDGE_AMAX = { value = "amax" }
[configs]
default = { }
[variants]
vector_both = { case = "rmsnorm_quantize rows=8192 cols=8192 scaling=1x128 copies=both" }
vector = { case = "rmsnorm_quantize rows=8192 cols=4096 scaling=1x128 copies=row" }
vector_t = { case = "rmsnorm_quantize rows=8192 cols=8192 scaling=1x128 copies=column" }
vector_both_residual = { case = "rmsnorm_quantize rows=8192 cols=8192 scaling=1x128 copies=both residual=1" }
vector_both_residual_short = { case = "rmsnorm_quantize rows=8192 cols=2048 scaling=1x128 copies=both residual=1" }
block_both = { case = "rmsnorm_quantize rows=8192 cols=8192 scaling=128x128 copies=both" }
mx_both_f32_weight = { case = "rmsnorm_quantize rows=8192 cols=8192 scaling=mx copies=both weight=f32 zero_centred=1" }
tensor_both = { case = "rmsnorm_quantize rows=8192 cols=8192 scaling=tensor copies=both" }
tensor_both_given = { case = "rmsnorm_quantize rows=8192 cols=8192 scaling=tensor copies=both amax=given residual=1" }
row_both = { case = "rmsnorm_quantize rows=8192 cols=8192 scaling=row copies=both" }
f32_vector_both = { case = "rmsnorm_quantize rows=8192 cols=8192 dtype=f32 scaling=1x128 copies=both residual=1" }
f16_e5m2_mx_both = { case = "rmsnorm_quantize rows=8192 cols=8192 dtype=f16 format=e5m2 scaling=mx copies=both" }
plain_vector_both = { case = "rmsnorm_quantize rows=8192 cols=8192 weight=none scaling=1x128 copies=both" }
vector_both_stochastic = { case = "rmsnorm_quantize rows=8192 cols=8192 scaling=1x128 copies=both rounding=stochastic" }
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
[[value]]
name = "lanes"
expression = "cols * x_bytes <= 8192 ? 32 : 256"
[[needs]]
expression = "ceil_div(rows, 128) * tile_cols <= 2147483647"
reason = "a grid has at most 2147483647 tiles of 128 x 128"
[[needs]]
expression = "rows <= 2147483647"
reason = "a grid has at most 2147483647 rows"
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
[[struct]]
name = "parameters"
members = [
  { operand = "x" }, { i64 = "x_stride0" }, { operand = "residual", when = "residual" }, { i64 = "residual_stride0", when = "residual" },
  { operand = "sum", when = "residual" }, { i64 = "sum_stride0", when = "residual" }, { operand = "weight", when = "weight" }, { operand = "rstd" },
  { u32 = "x_align >= 16" }, { u32 = "residual_align >= 16", when = "residual" }, { u32 = "sum_align >= 16", when = "residual" },
  { f32 = "eps" },
  { operand = "q", when = "plain" }, { operand = "scale", when = "plain" },
  { operand = "q_t", when = "transposed" }, { operand = "scale_t", when = "transposed" }, { operand = "random", when = "rounding" },
  { i64 = "q_stride0", when = "plain" }, { i64 = "scale_stride0", when = "plain && scaling > 1" },
  { i64 = "q_t_stride0", when = "transposed" }, { i64 = "scale_t_stride0", when = "transposed && scaling > 1" },
  { i64 = "rows" }, { i64 = "cols" }, { u32 = "tile_cols" }, { u32 = "scale" },
  { u32 = "q_align >= 8", when = "plain" }, { u32 = "q_t_align >= 16", when = "transposed" },
  { operand = "amax", when = "amax" }, { operand = "found", when = "amax" },
]
[[kernel]]
symbol = "ridge_rmsnorm_quantize_rows"
grid = ["ceil_div(rows * lanes, 256)"]
block = [256]
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_rmsnorm_quantize_amax"
grid = ["ceil_div(rows, 128) * tile_cols"]
block = [256]
when = "known_at_the_end"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_rmsnorm_quantize_scales"
grid = ["ceil_div(scaling == 0 ? 1 : plain * rows + transposed * cols, 256)"]
block = [256]
when = "known_at_the_end"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_rmsnorm_quantize"
grid = ["ceil_div(rows, 128) * tile_cols"]
block = [256]
args = [{ struct = "parameters" }]
*/
// clang-format on

#include "../../../device/cuda/kernel/chunk.cuh"
#include "../../coding/elements.cuh"

namespace ridge::cuda {

// The elements are y, in fp32, of what is normalised and of the factors of rows, which the first launch leaves.
struct Source {
  static constexpr Element kType = Element::kF32, kInput = Element::RIDGE_TYPE;
  static constexpr Number kNumber = Number::RIDGE_TYPE, kTypeW = Number::RIDGE_TYPE_W;
  static constexpr bool kReadBefore = true, kHalves = false;
  static constexpr bool kWeight = RIDGE_WEIGHT != 0, kZeroCentred = RIDGE_ZERO_CENTRED != 0;
  static constexpr bool kResidual = RIDGE_RESIDUAL != 0;

  StoredMatrix x, residual, sum;
  const void* weight;
  float* rstd;
  u32 aligned_x, aligned_residual, aligned_sum;  // rows start on 16 bytes
  float eps;

  __device__ __forceinline__ void load(i64 rows, i64 cols, i64 row, i64 col, Packed<kType>::Square& to) const {
    Packed<kInput>::Square h;
    float factors[kSide], weights[kWeight ? kSide : 1];
#pragma unroll
    for (u32 i = 0; i < kSide; ++i) {
      load_eight<kInput>(kResidual ? sum : x, (kResidual ? aligned_sum : aligned_x) != 0, rows, cols, row + i, col,
                         h[i]);
      factors[i] = row + i < rows ? rstd[row + i] : 0.0f;
    }
#pragma unroll
    for (u32 j = 0; kWeight && j < kSide; ++j) {
      const float w = col + j < cols ? load_number<kTypeW>(weight, col + j) : 0.0f;
      weights[j] = kZeroCentred ? 1.0f + w : w;
    }
#pragma unroll
    for (u32 i = 0; i < kSide; ++i) {
#pragma unroll
      for (u32 j = 0; j < kSide; ++j) {
        float y = element_of<kInput>(h[i], j) * factors[i];
        if constexpr (kWeight) y *= weights[j];
        to[i][j] = __float_as_uint(y);
      }
    }
  }
};

}  // namespace ridge::cuda

#include "../../coding/tiles.cuh"

namespace ridge::cuda {

struct RmsnormQuantizeParameters {
  Source source;
  TileParameters tile;
};

namespace {

constexpr u32 kLanes = RIDGE_LANES;  // threads of a row
using ChunkX = Chunk<Source::kNumber>;

// One row for its threads: what is normalised, and its squares.
struct RowOfSource {
  const u8 *x, *residual;
  u8* sum;

  __device__ __forceinline__ RowOfSource(const Source& s, i64 row) {
    const auto start = [row](const StoredMatrix& m) {
      return static_cast<const u8*>(m.data) + row * m.stride * kBytes;
    };
    x = start(s.x);
    residual = Source::kResidual ? start(s.residual) : nullptr;
    sum = Source::kResidual ? const_cast<u8*>(start(s.sum)) : nullptr;
  }
  static constexpr u32 kBytes = ChunkX::kBytes;  // of an element

  __device__ __forceinline__ float squares_of(ChunkX& h, const ChunkX& more, i64 chunk) const {
    if constexpr (Source::kResidual) {
      float sums[ChunkX::kCount];
#pragma unroll
      for (u32 i = 0; i < ChunkX::kCount; ++i) sums[i] = h[i] + more[i];
      h.set(sums);
      h.store_global(sum + chunk * 16);
    }
    float squares = 0.0f;
#pragma unroll
    for (u32 i = 0; i < ChunkX::kCount; ++i) squares = fmaf(h[i], h[i], squares);
    return squares;
  }
  __device__ __forceinline__ float square_at(i64 j) const {
    float h = load_number<Source::kNumber>(x, j);
    if constexpr (Source::kResidual) {
      h = rounded_number<Source::kNumber>(h + load_number<Source::kNumber>(residual, j));
      store_number<Source::kNumber>(sum, j, h);
    }
    return h * h;
  }
};

// The sum over a row's threads, for the first of them.
__device__ __forceinline__ float sum_of_team(float mine) {
#pragma unroll
  for (u32 mask = kWarpThreads / 2; mask > 0; mask /= 2) mine += __shfl_xor_sync(~0u, mine, mask);
  if constexpr (kLanes > kWarpThreads) {
    __shared__ float warps[kWarps];
    if (threadIdx.x % kWarpThreads == 0) warps[threadIdx.x / kWarpThreads] = mine;
    __syncthreads();
    mine = 0.0f;
#pragma unroll
    for (u32 i = 0; i < kWarps; ++i) mine += warps[i];
  }
  return mine;
}

__device__ __forceinline__ void measure_rows(const Source& s, const TileParameters& p) {
  constexpr u32 kAtOnce = Source::kResidual ? 2 : 4;  // chunks of each matrix that a thread has in flight
  const u32 lane = threadIdx.x % kLanes;
  const i64 row = blockIdx.x * static_cast<i64>(kThreads / kLanes) + threadIdx.x / kLanes;
  if (row >= p.rows) return;  // a whole warp, or the block
  const RowOfSource r(s, row);
  const bool aligned = s.aligned_x != 0 && (!Source::kResidual || (s.aligned_residual != 0 && s.aligned_sum != 0));
  const i64 chunks = aligned ? p.cols / ChunkX::kCount : 0;
  float squares = 0.0f;
  for (i64 first = lane; first < chunks; first += kAtOnce * kLanes) {
    ChunkX h[kAtOnce], more[Source::kResidual ? kAtOnce : 1];
#pragma unroll
    for (u32 k = 0; k < kAtOnce; ++k) {
      const i64 c = first + k * kLanes;
      h[k].clear();
      if (c >= chunks) continue;
      h[k].load_global(r.x + c * 16);
      if constexpr (Source::kResidual) more[k].load_global(r.residual + c * 16);
    }
#pragma unroll
    for (u32 k = 0; k < kAtOnce; ++k) {
      const i64 c = first + k * kLanes;
      if (c < chunks) squares += r.squares_of(h[k], more[Source::kResidual ? k : 0], c);
    }
  }
  for (i64 j = chunks * ChunkX::kCount + lane; j < p.cols; j += kLanes) squares += r.square_at(j);
  squares = sum_of_team(squares);
  if (lane == 0) s.rstd[row] = __frsqrt_rn(squares * (1.0f / static_cast<float>(p.cols)) + s.eps);
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(256)
    ridge_rmsnorm_quantize_rows(const ridge::cuda::RmsnormQuantizeParameters p) {
  ridge::cuda::measure_rows(p.source, p.tile);
}

extern "C" __global__ void __launch_bounds__(256, ridge::cuda::kBlocks)
    ridge_rmsnorm_quantize(const ridge::cuda::RmsnormQuantizeParameters p) {
  ridge::cuda::write_codes(p.source, p.tile);
}

extern "C" __global__ void __launch_bounds__(256, 2)
    ridge_rmsnorm_quantize_amax(const ridge::cuda::RmsnormQuantizeParameters p) {
  ridge::cuda::collect_largest(p.source, p.tile);
}

extern "C" __global__ void __launch_bounds__(256)
    ridge_rmsnorm_quantize_scales(const ridge::cuda::RmsnormQuantizeParameters p) {
  ridge::cuda::make_scales(p.tile);
}
