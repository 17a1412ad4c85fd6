// Elements from memory into registers, through the step and back: each operand once, in units that are 16 bytes of the
// widest one (4 elements where anything is f32, else 8), so that a warp's loads and stores are whole lines. All loads
// of a thread are in flight before it looks at `skip`, and before anything is stored. Bound by memory; division and
// root are IEEE's, for which the issue slots are there.
// Lists of tensors (kernel/call_list.cuh) go the same way: a block finds its tensor first.
// With a master the parameter is written and not read. Operands that do not start on a unit go element by element,
// eight or four of a thread at once, which is a few times slower.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "THREADS"
values = [128, 256, 512]
default = 256
category = "resource"
title = "threads of a block"
[[tunable]]
name = "UNITS"
values = [1, 2, 4]
default = 1
category = "tile"
title = "units that a thread takes of every operand at once"
*/
/* ridge-kernel
op = "adamw"
max_registers = 168
sass = [{ opcode = "LDG" }, { opcode = "STG" }]
[define]
RIDGE_TYPE_PARAM = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_GRAD = { value = "wide_grad ? 0 : dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_STATE = { value = "state", names = ["kF32", "kBf16"] }
RIDGE_UNIT = { value = "unit" }
RIDGE_MASTER = { value = "master" }
RIDGE_FACTOR = { value = "factor" }
RIDGE_SKIP = { value = "skip" }
RIDGE_MAXIMIZE = { value = "maximize" }
RIDGE_ALIGNED = { value = "vectors" }
RIDGE_SIDE = { value = "UNITS" }
RIDGE_THREADS = { value = "THREADS" }
[configs]
default = { }
two_units = { UNITS = 2 }
four_units = { UNITS = 4 }
small_blocks = { THREADS = 128 }
small_blocks_two_units = { THREADS = 128, UNITS = 2 }
large_blocks = { THREADS = 512 }
[variants]
f32 = { case = "adamw count=134217728 dtype=f32", every = true }
bf16_master = { case = "adamw count=134217728 master=1", every = true }
bf16_master_wide_grad = { case = "adamw count=134217728 master=1 wide_grad=1" }
bf16_state_bf16 = { case = "adamw count=134217728 state=bf16", every = true }
bf16_f32_state = { case = "adamw count=134217728" }
bf16_all = { case = "adamw count=134217728 master=1 factor=1 skip=1 maximize=1" }
bf16_master_state_bf16 = { case = "adamw count=134217728 master=1 state=bf16" }
f16_master_skip = { case = "adamw count=134217728 dtype=f16 master=1 factor=1 skip=1" }
f16_state_bf16 = { case = "adamw count=134217728 dtype=f16 state=bf16 factor=1" }
f32_state_bf16 = { case = "adamw count=134217728 dtype=f32 state=bf16" }
f32_unaligned = { case = "adamw count=134217728 dtype=f32", RIDGE_ALIGNED = "0" }
bf16_unaligned = { case = "adamw count=134217728 master=1 factor=1 skip=1", RIDGE_ALIGNED = "0" }
bf16_state_bf16_unaligned = { case = "adamw count=134217728 state=bf16", RIDGE_ALIGNED = "0" }
*/
/* ridge-launch
[[value]]
name = "blocks"
expression = "ceil_div(count, THREADS * UNITS * unit)"
# Of the smallest blocks that there are.
[[needs]]
expression = "ceil_div(count, 512) <= 2147483647"
reason = "a grid has at most 2147483647 blocks, of 512 elements"
# The numbers of a step are made of the call's scalars in fp64 and rounded once.
[[kernel]]
symbol = "ridge_adamw"
list = "ridge_adamw_list"
grid = ["blocks"]
block = ["THREADS"]
args = [{ struct = [
  { operand = "grad" }, { operand = "factor", when = "factor" }, { operand = "skip", when = "skip" },
  { operand = "param" }, { operand = "exp_avg" }, { operand = "exp_avg_sq" }, { operand = "master", when = "master" },
  { i64 = "count" },
  { f32 = "1 - lr * weight_decay" }, { f32 = "1 - beta1" }, { f32 = "beta2" }, { f32 = "1 - beta2" },
  { f32 = "lr / correction1" }, { f32 = "1 / correction2 ^ 0.5" }, { f32 = "eps" },
] }]
*/
// clang-format on

#include "../../device/cuda/kernel/call_list.cuh"
#include "../../device/cuda/kernel/chunk.cuh"
#include "step.cuh"

namespace ridge::cuda {

// As the launch plan fills it.
struct AdamwParameters {
  const u8* grad;
  const float *factor, *skip;
  u8 *param, *mean, *square, *master;  // mean: exp_avg; square: exp_avg_sq
  i64 count;
  StepNumbers numbers;
};

namespace {

constexpr Number kParam = Number::RIDGE_TYPE_PARAM, kGrad = Number::RIDGE_TYPE_GRAD, kState = Number::RIDGE_TYPE_STATE;
constexpr bool kMaster = RIDGE_MASTER != 0, kFactor = RIDGE_FACTOR != 0, kSkip = RIDGE_SKIP != 0;
constexpr bool kMaximize = RIDGE_MAXIMIZE != 0, kAligned = RIDGE_ALIGNED != 0;
constexpr u32 kUnit = RIDGE_UNIT, kSide = RIDGE_SIDE, kThreads = RIDGE_THREADS;
constexpr Number kWeights = kMaster ? Number::kF32 : kParam;

// Elements of one operand that a thread takes at once.
template <Number kType>
struct Unit {
  using Stored = Numbers<kType, kUnit>;
  static constexpr u32 kBytes = Stored::kBytes;
  static_assert(Stored::kWords == 2 || Stored::kWords == 4, "a unit is one load");
  float values[kUnit];

  __device__ __forceinline__ void store(u8* to) const {
    Stored stored;
    stored.set(values);
    stored.store_global(to);
  }
  // Of memory that this thread writes afterwards, so not by the path of constants.
  __device__ __forceinline__ void load(const u8* from) {
    Stored stored;
    u32(&words)[Stored::kWords] = stored.words;
    if constexpr (Stored::kWords == 4) {
      asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "l"(from)
                   : "memory");
    } else {
      asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(from) : "memory");
    }
#pragma unroll
    for (u32 i = 0; i < kUnit; ++i) values[i] = stored[i];
  }
  // The elements at `first` and every kThreads from there, one by one.
  __device__ __forceinline__ void load_elements(const u8* from, i64 first, i64 end) {
#pragma unroll
    for (u32 i = 0; i < kUnit; ++i) {
      const i64 at = first + i * kThreads;
      values[i] = at < end ? load_number<kType>(from, at) : 0.0f;
    }
  }
  __device__ __forceinline__ void store_elements(u8* to, i64 first, i64 end) const {
#pragma unroll
    for (u32 i = 0; i < kUnit; ++i) {
      const i64 at = first + i * kThreads;
      if (at < end) store_number<kType>(to, at, values[i]);
    }
  }
};

// What a thread holds of a unit.
struct Elements {
  Unit<kGrad> grad;
  Unit<kWeights> weights;
  Unit<kState> mean, square;

  __device__ __forceinline__ void load(const AdamwParameters& p, i64 unit) {
    grad.load(p.grad + unit * kUnit * Unit<kGrad>::kBytes);
    weights.load((kMaster ? p.master : p.param) + unit * kUnit * Unit<kWeights>::kBytes);
    mean.load(p.mean + unit * kUnit * Unit<kState>::kBytes);
    square.load(p.square + unit * kUnit * Unit<kState>::kBytes);
  }
  __device__ __forceinline__ void store(const AdamwParameters& p, i64 unit) const {
    if constexpr (kMaster) weights.store(p.master + unit * kUnit * 4);
    parameter().store(p.param + unit * kUnit * Unit<kParam>::kBytes);
    mean.store(p.mean + unit * kUnit * Unit<kState>::kBytes);
    square.store(p.square + unit * kUnit * Unit<kState>::kBytes);
  }
  __device__ __forceinline__ void load_elements(const AdamwParameters& p, i64 first) {
    grad.load_elements(p.grad, first, p.count);
    weights.load_elements(kMaster ? p.master : p.param, first, p.count);
    mean.load_elements(p.mean, first, p.count);
    square.load_elements(p.square, first, p.count);
  }
  __device__ __forceinline__ void store_elements(const AdamwParameters& p, i64 first) const {
    if constexpr (kMaster) weights.store_elements(p.master, first, p.count);
    parameter().store_elements(p.param, first, p.count);
    mean.store_elements(p.mean, first, p.count);
    square.store_elements(p.square, first, p.count);
  }

  __device__ __forceinline__ void step(const AdamwParameters& p, float factor) {
#pragma unroll
    for (u32 i = 0; i < kUnit; ++i) {
      const float given = kMaximize ? -grad.values[i] : grad.values[i], g = kFactor ? given * factor : given;
      step_element(p.numbers, g, weights.values[i], mean.values[i], square.values[i]);
    }
  }

 private:
  __device__ __forceinline__ Unit<kParam> parameter() const {
    Unit<kParam> param;
#pragma unroll
    for (u32 i = 0; i < kUnit; ++i) param.values[i] = weights.values[i];
    return param;
  }
};

// The elements at `first` and every kThreads from there.
__device__ __forceinline__ void by_elements(const AdamwParameters& p, i64 first) {
  Elements elements;
  elements.load_elements(p, first);
  if (kSkip && *p.skip != 0.0f) return;
  elements.step(p, kFactor ? *p.factor : 1.0f);
  elements.store_elements(p, first);
}

__device__ __forceinline__ void by_units(const AdamwParameters& p, u32 block, u32 blocks) {
  const i64 units = p.count / kUnit, first = static_cast<i64>(block) * (kThreads * kSide) + threadIdx.x;
  Elements elements[kSide];
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
    if (first + s * kThreads < units) elements[s].load(p, first + s * kThreads);
  }
  const float factor = kFactor ? *p.factor : 1.0f;
  if (kSkip && *p.skip != 0.0f) return;
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
    if (first + s * kThreads >= units) continue;
    elements[s].step(p, factor);
    elements[s].store(p, first + s * kThreads);
  }
  // What is left behind the last unit: fewer elements than a unit, by the last block.
  if (block + 1 == blocks && units * kUnit + threadIdx.x < p.count) by_elements(p, units * kUnit + threadIdx.x);
}

__device__ __forceinline__ void adamw(const AdamwParameters& p, u32 block, u32 blocks) {
  if constexpr (kAligned) {
    by_units(p, block, blocks);
  } else {
#pragma unroll
    for (u32 s = 0; s < kSide; ++s) {
      by_elements(p, (static_cast<i64>(block) * kSide + s) * (kThreads * kUnit) + threadIdx.x);
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS) ridge_adamw(const ridge::cuda::AdamwParameters p) {
  ridge::cuda::adamw(p, blockIdx.x, gridDim.x);
}
extern "C" __global__ void __launch_bounds__(RIDGE_THREADS)
    ridge_adamw_list(const __grid_constant__ ridge::cuda::CallList<ridge::cuda::AdamwParameters> list) {
  const ridge::cuda::BlockOfList at = ridge::cuda::block_of_list(list);
  ridge::cuda::adamw(list.calls[at.call], at.block, at.blocks);
}
