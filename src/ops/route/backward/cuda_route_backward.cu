// A team of lanes of a warp takes a row. The gradients of the chosen scores are lanes' work, a choice for each lane:
// the sums over them are exchanges between lanes. With softmax of all experts the row is read in chunks of 16 bytes,
// for its largest logit, for its sum and for its results, the second and third time from the first-level cache; else it
// is not read, and filled with zeros. The elements of the chosen experts are then written over what the row's chunks
// have there. Bound by memory, and up to 256 experts by the latency of a row. Rows that do not start on 16 bytes, or
// are no multiple of them long, go by elements. A choice that is no expert counts for nothing.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "THREADS"
values = [64, 128, 256]
default = 128
category = "resource"
title = "threads of a block"
*/
/* ridge-kernel
op = "route_backward"
max_registers = 128
sass = [{ opcode = "LDG" }, { opcode = "STG" }]
[define]
RIDGE_TYPE = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_VECTORS = { value = "vectors" }
RIDGE_LANES = { value = "lanes" }
RIDGE_SLOTS = { value = "ceil_div(top, lanes)" }
RIDGE_THREADS = { value = "THREADS" }
[configs]
default = { }
small_blocks = { THREADS = 64 }
large_blocks = { THREADS = 256 }
[variants]
bf16_256 = { case = "route_backward tokens=16384 experts=256 top=8 renormalize=1", every = true }
bf16_128 = { case = "route_backward tokens=8192 experts=128 top=8 renormalize=1" }
bf16_8 = { case = "route_backward tokens=16384 experts=8 top=2 renormalize=1" }
bf16_67 = { case = "route_backward tokens=16384 experts=67 top=5" }
f16_256 = { case = "route_backward tokens=16384 experts=256 top=8 dtype=f16" }
f32_512 = { case = "route_backward tokens=16384 experts=512 top=64 dtype=f32" }
*/
/* ridge-launch
[[value]]
name = "steps"
expression = "vectors ? ceil_div(experts * logits_bytes, 16) : experts"
[[value]]
name = "lanes"
expression = "steps > 16 ? 32 : steps > 8 ? 16 : steps > 4 ? 8 : steps > 2 ? 4 : steps > 1 ? 2 : 1"
[[needs]]
expression = "tokens <= 67108863"
reason = "a grid has at most 2147483647 blocks, and threads are counted in 31 bits"
[[kernel]]
symbol = "ridge_route_backward"
grid = ["ceil_div(tokens * lanes, THREADS)"]
block = ["THREADS"]
args = [{ struct = [
  { operand = "logits" }, { operand = "experts" }, { operand = "dweights" }, { operand = "dlogits" },
  { i64 = "logits_stride0 * logits_bytes" }, { i64 = "experts_stride0" }, { i64 = "dweights_stride0" },
  { i64 = "dlogits_stride0 * dlogits_bytes" }, { u32 = "tokens" }, { u32 = "experts" }, { u32 = "top" },
  { u32 = "score" }, { u32 = "order" }, { u32 = "renormalize" }, { f32 = "scale" },
] }]
*/
// clang-format on

#include "../../../device/cuda/kernel/chunk.cuh"

namespace ridge::cuda {

// As the launch plan fills it; pitches in bytes, strides in elements.
struct RouteBackwardParameters {
  const u8* logits;
  const i32* experts;
  const float* dweights;
  u8* dlogits;
  i64 logits_pitch, experts_stride, dweights_stride, dlogits_pitch;
  u32 tokens, count, top;
  u32 sigmoid, top_first, renormalize;
  float scale;
};

namespace {

constexpr Number kType = Number::RIDGE_TYPE;
constexpr bool kVectors = RIDGE_VECTORS != 0;
constexpr u32 kLanes = RIDGE_LANES, kSlots = RIDGE_SLOTS, kThreads = RIDGE_THREADS;
constexpr u32 kAllLanes = ~0u;

// The lanes that share a row.
struct Team {
  u32 lane, first;  // of the team, and the lane of the warp that it begins with

  __device__ __forceinline__ Team() {
    const u32 own = threadIdx.x % kWarpThreads;
    lane = own % kLanes;
    first = own - lane;
  }
  template <class T, class Join>
  static __device__ __forceinline__ T over(T value, const Join& join) {
#pragma unroll
    for (u32 step = kLanes / 2; step > 0; step /= 2) value = join(value, __shfl_xor_sync(kAllLanes, value, step));
    return value;
  }
  static __device__ __forceinline__ float sum(float value) {
    return over(value, [](float a, float b) { return a + b; });
  }
  static __device__ __forceinline__ float largest(float value) {
    return over(value, [](float a, float b) { return fmaxf(a, b); });
  }
  template <class T>
  __device__ __forceinline__ T from(T value, u32 other) const {
    return __shfl_sync(kAllLanes, value, static_cast<int>(first + other));
  }
};

__device__ __forceinline__ float sigmoid(float x) {
  const float power = expf(-fabsf(x)), share = 1.0f / (1.0f + power);
  return x < 0.0f ? power * share : share;
}

// What lanes load and store of a row at once: a chunk, or an element.
struct Piece {
  static constexpr u32 kCount = kVectors ? Chunk<kType>::kCount : 1;
  float values[Chunk<kType>::kCount];  // the first kCount of them

  __device__ __forceinline__ void load(const u8* row, u32 at) {
    if constexpr (kVectors) {
      Chunk<kType> chunk;
      chunk.load_global(row + static_cast<u64>(at) * Chunk<kType>::kBytes);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) values[i] = chunk[i];
    } else {
      values[0] = load_number<kType>(row, at);
    }
  }
  __device__ __forceinline__ void store(u8* row, u32 at) const {
    if constexpr (kVectors) {
      Chunk<kType> chunk;
      chunk.set(values);
      chunk.store_global(row + static_cast<u64>(at) * Chunk<kType>::kBytes);
    } else {
      store_number<kType>(row, at, values[0]);
    }
  }
};
// The pieces of this lane.
template <class Work>
__device__ __forceinline__ void each_piece(const RouteBackwardParameters& p, const Team& team, const Work& work) {
  for (u32 at = team.lane * Piece::kCount; at < p.count; at += kLanes * Piece::kCount) work(at);
}

// e^distance. In fp32 it is exact to its last steps; in a sum, and where results have 16 bits, the product with log2 e
// may round to a part of the exponent.
template <bool kExact>
__device__ __forceinline__ float power(float distance) {
  if constexpr (kExact) return expf(distance);
  return exp2_approx(distance * 1.44269504f);
}

// Of a softmax: the largest logit and 1 / the sum of the powers beside it, NaN where the formula has that: of a NaN, of
// +infinity and of nothing but -infinity, whose powers beside themselves are NaN.
struct Softmax {
  float most, share;

  __device__ __forceinline__ float operator()(float x) const { return power<true>(x - most) * share; }
};

__device__ __forceinline__ Softmax softmax_of_row(const RouteBackwardParameters& p, const Team& team, const u8* row) {
  float most = minus_infinity(), sum = 0.0f;
  each_piece(p, team, [&](u32 at) {
    Piece piece;
    piece.load(row, at);
#pragma unroll
    for (u32 i = 0; i < Piece::kCount; ++i) most = fmaxf(most, piece.values[i]);
  });
  most = Team::largest(most);
  each_piece(p, team, [&](u32 at) {
    Piece piece;
    piece.load(row, at);
#pragma unroll
    for (u32 i = 0; i < Piece::kCount; ++i) sum += power<false>(piece.values[i] - most);
  });
  return {most, 1.0f / Team::sum(sum)};
}

// The choices of a row: the k-th is held by lane k % kLanes of its team.
struct Choices {
  u32 expert[kSlots];                             // ~0: none
  float x[kSlots], score[kSlots], slope[kSlots];  // slope: the gradient of the weight, then that of the score

  __device__ __forceinline__ bool has(u32 s) const { return expert[s] != ~0u; }

  __device__ __forceinline__ void load(const RouteBackwardParameters& p, const Team& team, u32 row, const u8* logits) {
#pragma unroll
    for (u32 s = 0; s < kSlots; ++s) {
      const u32 k = s * kLanes + team.lane;
      expert[s] = ~0u, x[s] = minus_infinity(), score[s] = slope[s] = 0.0f;
      if (k >= p.top) continue;
      const u32 which = static_cast<u32>(p.experts[row * p.experts_stride + k]);
      if (which >= p.count) continue;
      expert[s] = which;
      slope[s] = p.dweights[row * p.dweights_stride + k];
      x[s] = load_number<kType>(logits, which);
    }
  }
  template <class Term>
  __device__ __forceinline__ float sum(const Term& term) const {
    float sum = 0.0f;
#pragma unroll
    for (u32 s = 0; s < kSlots; ++s) sum += has(s) ? term(s) : 0.0f;
    return Team::sum(sum);
  }
  __device__ __forceinline__ Softmax softmax() const {
    float most = minus_infinity();
#pragma unroll
    for (u32 s = 0; s < kSlots; ++s) most = fmaxf(most, x[s]);
    most = Team::largest(most);
    return {most, 1.0f / sum([&](u32 s) { return power<true>(x[s] - most); })};
  }
  // The gradients of all choices of the same expert together.
  __device__ __forceinline__ void join_equal(const RouteBackwardParameters& p, const Team& team) {
    float all[kSlots] = {};
#pragma unroll
    for (u32 s = 0; s < kSlots; ++s) {
      for (u32 lane = 0; lane < kLanes && s * kLanes + lane < p.top; ++lane) {
        const u32 other = team.from(expert[s], lane);
        const float more = team.from(slope[s], lane);
#pragma unroll
        for (u32 own = 0; own < kSlots; ++own) all[own] += other == expert[own] ? more : 0.0f;
      }
    }
#pragma unroll
    for (u32 s = 0; s < kSlots; ++s) slope[s] = all[s];
  }
};

// The row but for the chosen experts.
__device__ __forceinline__ void write_others(const RouteBackwardParameters& p, const Team& team, const u8* logits,
                                             u8* dlogits, bool of_all, const Softmax& softmax, float dot) {
  const float factor = softmax.share * (0.0f - dot);
  each_piece(p, team, [&](u32 at) {
    Piece piece = {};
    if (of_all) {
      piece.load(logits, at);
#pragma unroll
      for (u32 i = 0; i < Piece::kCount; ++i) {
        piece.values[i] = power<kType == Number::kF32>(piece.values[i] - softmax.most) * factor;
      }
    }
    piece.store(dlogits, at);
  });
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS)
    ridge_route_backward(const ridge::cuda::RouteBackwardParameters p) {
  using namespace ridge::cuda;
  const Team team;
  const u32 wanted = (blockIdx.x * kThreads + threadIdx.x) / kLanes;
  const bool is_row = wanted < p.tokens;
  const u32 row = is_row ? wanted : p.tokens - 1;  // lanes behind the last row work along
  const u8* const logits = p.logits + row * p.logits_pitch;
  u8* const dlogits = p.dlogits + row * p.dlogits_pitch;
  const bool of_all = p.sigmoid == 0 && p.top_first == 0;

  Choices chosen;
  chosen.load(p, team, row, logits);
  Softmax softmax{0.0f, 1.0f};
  if (of_all) softmax = softmax_of_row(p, team, logits);
  if (p.sigmoid == 0 && !of_all) softmax = chosen.softmax();
#pragma unroll
  for (u32 s = 0; s < kSlots; ++s) {
    if (chosen.has(s)) chosen.score[s] = p.sigmoid != 0 ? sigmoid(chosen.x[s]) : softmax(chosen.x[s]);
  }

  float factor = p.scale, off = 0.0f;
  if (p.renormalize != 0) {
    const float sum = chosen.sum([&](u32 s) { return chosen.score[s]; }) + 1e-20f;
    factor = p.scale / sum;
    off = chosen.sum([&](u32 s) { return chosen.slope[s] * (chosen.score[s] / sum); });
  }
#pragma unroll
  for (u32 s = 0; s < kSlots; ++s) chosen.slope[s] = factor * (chosen.slope[s] - off);
  const float dot = p.sigmoid != 0 ? 0.0f : chosen.sum([&](u32 s) { return chosen.slope[s] * chosen.score[s]; });
  if (p.top_first != 0) {
#pragma unroll
    for (u32 s = 0; s < kSlots; ++s) chosen.slope[s] -= dot;  // of each, where an expert is named twice
  }
  chosen.join_equal(p, team);

  if (is_row) write_others(p, team, logits, dlogits, of_all, softmax, dot);
  __syncwarp();  // the chosen ones come after what their chunks have there
#pragma unroll
  for (u32 s = 0; s < kSlots; ++s) {
    if (!is_row || !chosen.has(s)) continue;
    const float rest = p.sigmoid != 0 ? sigmoid(-chosen.x[s]) : 1.0f;
    const float slope = of_all ? chosen.slope[s] - dot : chosen.slope[s];
    store_number<kType>(dlogits, chosen.expert[s], slope * chosen.score[s] * rest);
  }
}
