// A team of lanes of a warp takes a row of logits, each of its lanes 8 to 32 neighbouring experts, which stay in
// registers as whole numbers that order as what is compared does (ranks). The team then meets once for each choice: for
// the largest rank, of which the lowest lane is the right one. Logits of 16 bits carry their expert in the low bits of
// the rank, so that no two are equal and the maximum says all; the next one of a lane is the largest below it. Other
// ranks are sorted by each lane, which moves up after a choice of its own, and experts are looked up in the end.
//
// Scores that are compared are made in fp64, which an H100 does at half the rate of fp32: e^x by a polynomial of degree
// 10 (relative error below 2^-51), 1 / (1 + e^-x) by two steps of Newton's method, and one rounding to fp32. Nothing
// else is in fp64: weights are made in fp32, from the logits of the chosen experts. Bound by instructions; the choice
// takes about 16 of them per chosen expert and row, fp64 about 30 for each 32 scores.
//
// Above 1024 experts, and with groups that no lane or power of two of lanes holds, a warp keeps the ranks of its row in
// shared memory and reads all of them for each choice, several times slower.

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
op = "route"
max_registers = 168
sass = [{ opcode = "LDG" }, { opcode = "STG" }, { opcode = "DFMA", when = "keys == 2" }]
[define]
RIDGE_TYPE = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_KEYS = { value = "keys", names = ["kPacked", "kLogits", "kScores"] }
RIDGE_BIAS = { value = "bias" }
RIDGE_GROUPED = { value = "grouped" }
RIDGE_SPAN = { value = "span" }
RIDGE_GENERAL = { value = "general" }
RIDGE_LANES = { value = "lanes" }
RIDGE_PER_LANE = { value = "per_lane" }
RIDGE_SLOTS = { value = "ceil_div(top, lanes)" }
RIDGE_WHOLE = { value = "lanes * per_lane == experts" }
RIDGE_VECTORS = { value = "general == 0 && vectors && per_lane % chunk == 0" }
RIDGE_THREADS = { value = "threads" }
[configs]
default = { }
small_blocks = { THREADS = 64 }
large_blocks = { THREADS = 256 }
[variants]
bf16_256 = { case = "route tokens=16384 experts=256 top=8 renormalize=1", every = true }
bf16_256_groups = { case = "route tokens=16384 experts=256 top=8 score=sigmoid bias=1 groups=8 group_top=4 renormalize=1", every = true }
bf16_128 = { case = "route tokens=8192 experts=128 top=8 renormalize=1" }
bf16_128_top_first = { case = "route tokens=16384 experts=128 top=4 order=top_first bias=1" }
bf16_8 = { case = "route tokens=16384 experts=8 top=2 renormalize=1" }
bf16_512 = { case = "route tokens=16384 experts=512 top=8" }
bf16_1024_bias = { case = "route tokens=16384 experts=1024 top=8 bias=1" }
bf16_160_groups = { case = "route tokens=16384 experts=160 top=6 groups=8 group_top=3" }
bf16_67 = { case = "route tokens=16384 experts=67 top=5 score=sigmoid bias=1" }
bf16_4096 = { case = "route tokens=1024 experts=4096 top=8 score=sigmoid bias=1 groups=64 group_top=8" }
f16_256 = { case = "route tokens=16384 experts=256 top=8 dtype=f16" }
f32_256 = { case = "route tokens=16384 experts=256 top=8 dtype=f32" }
f32_256_groups = { case = "route tokens=16384 experts=256 top=8 score=sigmoid bias=1 groups=8 group_top=4 dtype=f32" }
f32_512_bias = { case = "route tokens=16384 experts=512 top=8 bias=1 dtype=f32" }
*/
/* ridge-launch
[[value]]
name = "chunk"
expression = "floor_div(16, logits_bytes)"
[[value]]
name = "by_logits"
expression = "order == 1 || (bias == 0 && groups == 1)"
[[value]]
name = "grouped"
expression = "group_top < groups"
[[value]]
name = "keys"
expression = "by_logits == 0 ? 2 : bias == 0 && grouped == 0 && logits_bytes == 2 ? 0 : 1"
# Experts of a lane: as many of a row as fill a warp's chunks, unless a group would then not be a power of two of lanes.
[[value]]
name = "size"
expression = "floor_div(experts, groups)"
[[value]]
name = "base"
expression = "experts <= 256 ? 8 : experts <= 512 ? 16 : 32"
[[value]]
name = "lanes_of_group"
expression = "ceil_div(size, base)"
[[value]]
name = "fits"
expression = "size % base == 0 && (lanes_of_group == 1 || lanes_of_group == 2 || lanes_of_group == 4 || lanes_of_group == 8 || lanes_of_group == 16)"
[[value]]
name = "span"
expression = "grouped && fits ? lanes_of_group : 1"
[[value]]
name = "wanted"
expression = "grouped && fits == 0 ? size : base"
[[value]]
name = "wanted_lanes"
expression = "ceil_div(experts, wanted)"
[[value]]
name = "general"
expression = "wanted > 32 || wanted_lanes > 32"
[[value]]
name = "per_lane"
expression = "general ? 1 : wanted"
[[value]]
name = "lanes"
expression = "general || wanted_lanes > 16 ? 32 : wanted_lanes > 8 ? 16 : wanted_lanes > 4 ? 8 : wanted_lanes > 2 ? 4 : wanted_lanes > 1 ? 2 : 1"
[[value]]
name = "threads"
expression = "general ? 32 : THREADS"
[[needs]]
expression = "tokens <= 67108863"
reason = "a grid has at most 2147483647 blocks, and threads are counted in 31 bits"
[[needs]]
expression = "general == 0 || THREADS == 128"
reason = "a row with ranks in shared memory is the work of a block of one warp"
[[kernel]]
symbol = "ridge_route"
grid = ["ceil_div(tokens * lanes, threads)"]
block = ["threads"]
shared = "general ? 4 * (experts + groups) : 0"
args = [{ struct = [
  { operand = "logits" }, { operand = "bias", when = "bias" }, { operand = "weights" }, { operand = "experts" },
  { i64 = "logits_stride0 * logits_bytes" }, { i64 = "weights_stride0" }, { i64 = "experts_stride0" },
  { u32 = "tokens" }, { u32 = "experts" }, { u32 = "top" }, { u32 = "groups" }, { u32 = "group_top" },
  { u32 = "score" }, { u32 = "order" }, { u32 = "renormalize" }, { f32 = "scale" },
] }]
*/
// clang-format on

#include "../../device/cuda/kernel/chunk.cuh"

namespace ridge::cuda {

// As the launch plan fills it; the pitch in bytes, strides in elements.
struct RouteParameters {
  const u8* logits;
  const float* bias;
  float* weights;
  i32* experts;
  i64 logits_pitch, weights_stride, experts_stride;
  u32 tokens, count, top, groups, group_top;
  u32 sigmoid, top_first, renormalize;
  float scale;
};

namespace {

enum class Keys { kPacked, kLogits, kScores };  // ranks with their experts, ranks of logits, ranks of scores

constexpr Number kType = Number::RIDGE_TYPE;
constexpr Keys kKeys = Keys::RIDGE_KEYS;
constexpr bool kBias = RIDGE_BIAS != 0, kWhole = RIDGE_WHOLE != 0, kVectors = RIDGE_VECTORS != 0;
constexpr bool kGeneral = RIDGE_GENERAL != 0;
constexpr u32 kLanes = RIDGE_LANES, kPerLane = RIDGE_PER_LANE, kSlots = RIDGE_SLOTS, kThreads = RIDGE_THREADS;
constexpr bool kGrouped = RIDGE_GROUPED != 0;  // there are groups whose experts cannot be chosen
constexpr u32 kSpan = RIDGE_SPAN;              // lanes of a group
constexpr u32 kSorted = kPerLane > 16 ? 32 : kPerLane > 8 ? 16 : kPerLane > 4 ? 8 : kPerLane > 2 ? 4 : kPerLane;
constexpr u32 kAllLanes = ~0u;

// ---- Ranks: whole numbers in the order of what is compared

// Below the rank of -infinity: what cannot be chosen (any more), and a NaN. The low 13 bits of the rank of a logit of
// 16 bits are the same for all of a sign, and free for its expert.
constexpr u32 kGone = 0, kExpertBits = 13, kExpertMask = (1u << kExpertBits) - 1, kNanRank = 1u << kExpertBits;
constexpr u32 kAboveInfinity = 0xFFC00000u;  // a NaN has at least this before it is told apart

__device__ __forceinline__ bool is_nan(float x) { return x != x; }
__device__ __forceinline__ u32 rank_of_number(float key) {
  const u32 bits = __float_as_uint(key + 0.0f);  // -0 is 0
  return bits ^ (static_cast<u32>(static_cast<i32>(bits) >> 31) | 0x80000000u);
}
__device__ __forceinline__ u32 rank_of(float key) { return is_nan(key) ? kNanRank : rank_of_number(key); }
// A NaN counts as -infinity.
__device__ __forceinline__ float number_of(u32 rank) {
  if (rank <= kNanRank) return minus_infinity();
  return __uint_as_float((rank >> 31) != 0 ? rank & 0x7FFFFFFFu : ~rank);
}

// ---- A team: the lanes that share a row

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
  template <class T>
  static __device__ __forceinline__ T sum(T value) {
    return over(value, [](T a, T b) { return a + b; });
  }
  static __device__ __forceinline__ u32 largest(u32 value) {
    if constexpr (kLanes == kWarpThreads) return __reduce_max_sync(kAllLanes, value);
    return over(value, [](u32 a, u32 b) { return max(a, b); });
  }
  // A bit for each lane of the team.
  __device__ __forceinline__ u32 votes(bool vote) const {
    const u32 all = __ballot_sync(kAllLanes, vote ? 1 : 0) >> first;
    if constexpr (kLanes < kWarpThreads) return all & ((1u << kLanes) - 1);
    return all;
  }
  template <class T>
  __device__ __forceinline__ T from(T value, u32 other) const {
    return __shfl_sync(kAllLanes, value, static_cast<int>(first + other));
  }
};

// ---- Scores

// Nothing below has a branch: the numbers of a lane are made side by side.
constexpr float kLeast = -200.0f;  // fp32 has 0 for powers of less

// e^x of x from kLeast to 0. 2^n e^r with |r| <= ln(2) / 2.
__device__ __forceinline__ double power_of(double x) {
  constexpr double kShift = 0x1.8p52;  // added to it, a number is rounded to a whole one in its last bits
  const double shifted = __fma_rn(x, 0x1.71547652b82fep0, kShift), n = shifted - kShift;
  const double r = __fma_rn(n, -0x1.abc9e3b39803fp-56, __fma_rn(n, -0x1.62e42fefa39efp-1, x));
  // The polynomial through e^r at the Chebyshev nodes of the interval.
  double sum = 0x1.28a2ca617b969p-22;
  sum = __fma_rn(sum, r, 0x1.72fafebdaf273p-19);
  sum = __fma_rn(sum, r, 0x1.a019a6611cad5p-16);
  sum = __fma_rn(sum, r, 0x1.a01978b8b3d18p-13);
  sum = __fma_rn(sum, r, 0x1.6c16c17f46982p-10);
  sum = __fma_rn(sum, r, 0x1.1111112ddae8bp-7);
  sum = __fma_rn(sum, r, 0x1.55555555520a4p-5);
  sum = __fma_rn(sum, r, 0x1.555555554b736p-3);
  sum = __fma_rn(sum, r, 0x1.0000000000005p-1);
  sum = __fma_rn(sum, r, 0x1.000000000001ep+0);
  sum = __fma_rn(sum, r, 1.0);
  const i32 exponent = __double2loint(shifted);
  return __hiloint2double(__double2hiint(sum) + (exponent << 20), __double2loint(sum));
}
// 1 / x of x from 1 on, finite, to a step or two of fp64.
__device__ __forceinline__ double reciprocal_of(double x) {
  double y = reciprocal_approx(x);
  y = __fma_rn(__fma_rn(-x, y, 1.0), y, y);
  return __fma_rn(__fma_rn(-x, y, 1.0), y, y);
}

__device__ __forceinline__ float exact_sigmoid(float logit) {
  const double power = power_of(static_cast<double>(fmaxf(-fabsf(logit), kLeast)));
  const double share = reciprocal_of(1.0 + power);
  return static_cast<float>((logit < 0.0f ? power : 1.0) * share);
}
// Beside the largest logit, which may be infinite; a NaN has no part in the sum.
__device__ __forceinline__ double exact_power(float logit, float most) {
  const bool near = logit - most >= kLeast;
  const double power = power_of(near ? static_cast<double>(logit) - static_cast<double>(most) : kLeast);
  return is_nan(logit) ? 0.0 : logit == most ? 1.0 : power;
}

__device__ __forceinline__ float sigmoid(float x) {
  const float power = expf(-fabsf(x)), share = 1.0f / (1.0f + power);
  return x < 0.0f ? power * share : share;
}

// What the softmax of a row is made with. The sum is NaN where the formula has that: of a NaN, of +infinity and of
// nothing but -infinity.
struct Softmax {
  float most = minus_infinity(), sum = 0.0f;

  __device__ __forceinline__ float operator()(float x) const { return expf(x - most) / sum; }
};
__device__ __forceinline__ bool is_finite(float x) { return fabsf(x) <= 3.402823466e38f; }

// ---- Results

// The k-th choice is held by lane k % kLanes of its team.
struct Chosen {
  u32 expert[kSlots];

  __device__ __forceinline__ void keep(const Team& team, u32 k, u32 which) {
#pragma unroll
    for (u32 s = 0; s < kSlots; ++s) {
      if (k == s * kLanes + team.lane) expert[s] = which;
    }
  }
};

__device__ __forceinline__ void write_choices(const RouteParameters& p, const Team& team, u32 row, bool is_row,
                                              const Chosen& chosen, const Softmax& of_all) {
  float x[kSlots], weight[kSlots];
  const auto has = [&](u32 s) { return s * kLanes + team.lane < p.top; };
#pragma unroll
  for (u32 s = 0; s < kSlots; ++s) {
    x[s] = minus_infinity();
    if (has(s)) x[s] = load_number<kType>(p.logits + row * p.logits_pitch, chosen.expert[s]);
  }
  Softmax softmax = of_all;
  if (p.top_first != 0 && p.sigmoid == 0) {
    float most = minus_infinity(), sum = 0.0f;
#pragma unroll
    for (u32 s = 0; s < kSlots; ++s) most = fmaxf(most, x[s]);
    softmax.most = Team::over(most, [](float a, float b) { return fmaxf(a, b); });
#pragma unroll
    for (u32 s = 0; s < kSlots; ++s) sum += has(s) ? expf(x[s] - softmax.most) : 0.0f;
    softmax.sum = Team::sum(sum);
  }
  float sum = 0.0f;
#pragma unroll
  for (u32 s = 0; s < kSlots; ++s) {
    weight[s] = p.sigmoid != 0 ? sigmoid(x[s]) : softmax(x[s]);
    sum += has(s) ? weight[s] : 0.0f;
  }
  float divisor = 1.0f;
  if (p.renormalize != 0) divisor = Team::sum(sum) + 1e-20f;
#pragma unroll
  for (u32 s = 0; s < kSlots; ++s) {
    if (!is_row || !has(s)) continue;
    const u32 k = s * kLanes + team.lane;
    p.weights[row * p.weights_stride + k] = (p.renormalize != 0 ? weight[s] / divisor : weight[s]) * p.scale;
    p.experts[row * p.experts_stride + k] = static_cast<i32>(chosen.expert[s]);
  }
}

// ---- Rows whose ranks a team holds in registers

struct Row {
  float x[kPerLane];  // logits; -infinity behind the last expert
  u32 rank[kPerLane];
  u32 own = kPerLane;  // experts of this lane

  __device__ __forceinline__ bool has(u32 i) const { return kWhole || i < own; }

  __device__ __forceinline__ void load(const RouteParameters& p, const Team& team, const u8* logits) {
    const u32 begin = team.lane * kPerLane;
    if constexpr (!kWhole) own = begin < p.count ? min(p.count - begin, kPerLane) : 0;
    if constexpr (kVectors) {
      using ChunkX = Chunk<kType>;
#pragma unroll
      for (u32 c = 0; c < kPerLane / ChunkX::kCount; ++c) {
        ChunkX chunk;
        const bool in = has(c * ChunkX::kCount);  // rows are whole chunks
        if (in) chunk.load_global(logits + static_cast<u64>(begin + c * ChunkX::kCount) * ChunkX::kBytes);
#pragma unroll
        for (u32 i = 0; i < ChunkX::kCount; ++i) x[c * ChunkX::kCount + i] = in ? chunk[i] : minus_infinity();
      }
    } else {
#pragma unroll
      for (u32 i = 0; i < kPerLane; ++i) x[i] = has(i) ? load_number<kType>(logits, begin + i) : minus_infinity();
    }
  }

  __device__ __forceinline__ float most(const Team& team) const {
    float most = minus_infinity();
#pragma unroll
    for (u32 i = 0; i < kPerLane; ++i) most = fmaxf(most, x[i]);
    return number_of(Team::largest(rank_of(most)));
  }
  __device__ __forceinline__ bool any_nan(const Team& team) const {
    bool any = false;
#pragma unroll
    for (u32 i = 0; i < kPerLane; ++i) any = any || is_nan(x[i]);
    return team.votes(any) != 0;
  }

  // Ranks of scores. Also says what a softmax of the whole row is made with, where scores are one.
  __device__ __forceinline__ void rank_scores(const RouteParameters& p, const Team& team, Softmax& softmax) {
    float score[kPerLane];
    if (p.sigmoid != 0) {
#pragma unroll
      for (u32 i = 0; i < kPerLane; ++i) score[i] = exact_sigmoid(x[i]);
    } else {
      double power[kPerLane], sum = 0.0;
#pragma unroll
      for (u32 i = 0; i < kPerLane; ++i) {
        power[i] = has(i) ? exact_power(x[i], softmax.most) : 0.0;
        sum += power[i];
      }
      sum = Team::sum(sum);
      softmax.sum = any_nan(team) || !is_finite(softmax.most) ? not_a_number() : static_cast<float>(sum);
      const double share = reciprocal_of(sum);
#pragma unroll
      for (u32 i = 0; i < kPerLane; ++i) score[i] = static_cast<float>(power[i] * share);
    }
    set_ranks(p, team, [&](u32 i) { return is_nan(x[i]) ? x[i] : score[i]; });
  }
  template <class Key>
  __device__ __forceinline__ void set_ranks(const RouteParameters& p, const Team& team, const Key& key) {
    float bias[kPerLane];
    const u32 begin = team.lane * kPerLane;
    if constexpr (kBias && kVectors) {
#pragma unroll
      for (u32 i = 0; i < kPerLane; i += 4) {
        Chunk<Number::kF32> four;
        four.clear();
        if (has(i)) four.load_global(p.bias + begin + i);
#pragma unroll
        for (u32 j = 0; j < 4; ++j) bias[i + j] = four[j];
      }
    } else if constexpr (kBias) {
#pragma unroll
      for (u32 i = 0; i < kPerLane; ++i) bias[i] = has(i) ? p.bias[begin + i] : 0.0f;
    }
    u32 largest = kGone;
#pragma unroll
    for (u32 i = 0; i < kPerLane; ++i) {
      u32 one = 0;
      if constexpr (kBias) {
        one = rank_of_number(__fadd_rn(key(i), bias[i]));
      } else {
        one = rank_of_number(key(i));
      }
      if constexpr (kKeys == Keys::kPacked) one = (one & ~kExpertMask) | (kExpertMask - (begin + i));
      rank[i] = has(i) ? one : kGone;
      largest = max(largest, rank[i]);
    }
    if (largest < kAboveInfinity) return;
#pragma unroll
    for (u32 i = 0; i < kPerLane; ++i) {
      const u32 none = kKeys == Keys::kPacked ? kNanRank | (rank[i] & kExpertMask) : kNanRank;
      rank[i] = rank[i] >= kAboveInfinity ? none : rank[i];
    }
  }
  // The largest logit, of ranks of logits.
  __device__ __forceinline__ float most_ranked() const {
    u32 largest = kGone;
#pragma unroll
    for (u32 i = 0; i < kPerLane; ++i) largest = max(largest, rank[i]);
    largest = Team::largest(largest);
    if constexpr (kKeys == Keys::kPacked) {
      largest = (largest >> 31) != 0 ? largest & ~kExpertMask : largest | kExpertMask;
      if (largest < kNanRank + kNanRank) return minus_infinity();  // nothing but NaN
    }
    return number_of(largest);
  }

  // Takes experts out of the choice whose groups are not among the best.
  __device__ __forceinline__ void close_groups(const RouteParameters& p, const Team& team) {
    u32 first = kGone, second = kGone;  // the two best ranks
#pragma unroll
    for (u32 i = 0; i < kPerLane; ++i) {
      second = max(second, min(first, rank[i]));
      first = max(first, rank[i]);
    }
#pragma unroll
    for (u32 step = 1; step < kSpan; step *= 2) {
      const u32 other_first = __shfl_xor_sync(kAllLanes, first, step);
      const u32 other_second = __shfl_xor_sync(kAllLanes, second, step);
      second = max(max(second, other_second), min(first, other_first));
      first = max(first, other_first);
    }
    const u32 group = team.lane / kSpan;
    const bool alone = p.count == p.groups;  // groups of one expert
    const float mark = alone ? number_of(first) : __fadd_rn(number_of(first), number_of(second));
    const u32 own_mark = rank_of(mark);
    u32 better = 0;
    for (u32 g = 0; g < p.groups; ++g) {
      const u32 other = team.from(own_mark, g * kSpan);
      better += other > own_mark || (other == own_mark && g < group) ? 1 : 0;
    }
    if (better < p.group_top) return;
#pragma unroll
    for (u32 i = 0; i < kPerLane; ++i) rank[i] = kGone;
  }

  __device__ __forceinline__ void choose(const RouteParameters& p, const Team& team, Chosen& chosen) {
    if constexpr (kKeys == Keys::kPacked) {
      u32 best = kGone;
#pragma unroll
      for (u32 i = 0; i < kPerLane; ++i) best = max(best, rank[i]);
      for (u32 k = 0; k < p.top; ++k) {
        const u32 found = Team::largest(best);
        chosen.keep(team, k, kExpertMask - (found & kExpertMask));
        u32 least = ~0u;  // how far the next one is below; found and more for ranks that are not below
#pragma unroll
        for (u32 i = 0; i < kPerLane; ++i) least = min(least, found - 1 - rank[i]);
        best = least < found ? found - 1 - least : kGone;
      }
    } else {
      choose_sorted(p, team, chosen);
    }
  }

  __device__ __forceinline__ void choose_sorted(const RouteParameters& p, const Team& team, Chosen& chosen) const {
    u32 sorted[kSorted];
#pragma unroll
    for (u32 i = 0; i < kSorted; ++i) sorted[i] = i < kPerLane ? rank[i] : kGone;
#pragma unroll
    for (u32 size = 2; size <= kSorted; size *= 2) {
#pragma unroll
      for (u32 step = size / 2; step > 0; step /= 2) {
#pragma unroll
        for (u32 i = 0; i < kSorted; ++i) {
          if ((i & step) != 0) continue;
          const u32 a = sorted[i], b = sorted[i + step];
          const bool falls = (i & size) == 0;
          sorted[i] = falls ? max(a, b) : min(a, b);
          sorted[i + step] = falls ? min(a, b) : max(a, b);
        }
      }
    }
    // Of each choice the rank, the lane, and how many of that lane had the same rank before.
    u32 rank_of_choice[kSlots], lane_of_choice[kSlots], again_of_choice[kSlots];
#pragma unroll
    for (u32 s = 0; s < kSlots; ++s) rank_of_choice[s] = kGone, lane_of_choice[s] = again_of_choice[s] = 0;
    u32 last = kGone, last_winner = kLanes, again = 0;
    for (u32 k = 0; k < p.top; ++k) {
      const u32 found = Team::largest(sorted[0]);
      const u32 winner = static_cast<u32>(__ffs(static_cast<int>(team.votes(sorted[0] == found)))) - 1;
      again = found == last && winner == last_winner ? again + 1 : 0;
      last = found, last_winner = winner;
#pragma unroll
      for (u32 s = 0; s < kSlots; ++s) {
        if (k != s * kLanes + team.lane) continue;
        rank_of_choice[s] = found, lane_of_choice[s] = winner, again_of_choice[s] = again;
      }
      const bool mine = team.lane == winner;
#pragma unroll
      for (u32 i = 0; i < kSorted; ++i) {
        const u32 next = i + 1 < kSorted ? sorted[i + 1] : kGone;
        sorted[i] = mine ? next : sorted[i];
      }
    }
#pragma unroll
    for (u32 s = 0; s < kSlots; ++s) {
      u32 at = 0, left = again_of_choice[s] + 1;
#pragma unroll
      for (u32 i = 0; i < kPerLane; ++i) {
        const bool same = team.from(rank[i], lane_of_choice[s]) == rank_of_choice[s];
        left -= same ? 1 : 0;
        at = same && left == 0 ? i : at;
      }
      chosen.expert[s] = lane_of_choice[s] * kPerLane + at;
    }
  }
};

__device__ __forceinline__ void in_registers(const RouteParameters& p) {
  const Team team;
  const u32 wanted = (blockIdx.x * kThreads + threadIdx.x) / kLanes;
  const bool is_row = wanted < p.tokens;
  const u32 row = is_row ? wanted : p.tokens - 1;  // lanes behind the last row work along
  Row r;
  r.load(p, team, p.logits + row * p.logits_pitch);
  Softmax softmax;
  const bool of_all = p.sigmoid == 0 && p.top_first == 0;
  if constexpr (kKeys == Keys::kScores) {
    if (of_all) softmax.most = r.most(team);
    r.rank_scores(p, team, softmax);
  } else {
    r.set_ranks(p, team, [&](u32 i) { return r.x[i]; });
    if (of_all) {
      softmax.most = r.most_ranked();
      float sum = 0.0f;
#pragma unroll
      for (u32 i = 0; i < kPerLane; ++i) sum += exp2_approx((r.x[i] - softmax.most) * 1.44269504f);
      softmax.sum = Team::sum(sum);
    }
  }
  if constexpr (kGrouped) r.close_groups(p, team);
  Chosen chosen;
  r.choose(p, team, chosen);
  write_choices(p, team, row, is_row, chosen, softmax);
}

// ---- Rows whose ranks a warp holds in shared memory

// The best of `count` ranks, the first of equal ones; lanes look at neighbours. Those of kOpen do not count.
constexpr u32 kOpen = ~0u;
__device__ __forceinline__ u32 place_of_best(const u32* ranks, u32 count) {
  u32 best = kGone, at = 0;
  for (u32 i = threadIdx.x; i < count; i += kWarpThreads) {
    if (ranks[i] > best && ranks[i] != kOpen) best = ranks[i], at = i;
  }
  const u32 found = __reduce_max_sync(kAllLanes, best);
  return __reduce_min_sync(kAllLanes, best == found ? at : kOpen);
}

__device__ __forceinline__ void close_groups_shared(const RouteParameters& p, u32* ranks, u32* marks) {
  const u32 size = p.count / p.groups;
  for (u32 g = threadIdx.x; g < p.groups; g += kWarpThreads) {
    u32 first = kGone, second = kGone;
    for (u32 e = g * size; e < (g + 1) * size; ++e) {
      second = max(second, min(first, ranks[e]));
      first = max(first, ranks[e]);
    }
    marks[g] = rank_of(size == 1 ? number_of(first) : __fadd_rn(number_of(first), number_of(second)));
  }
  __syncwarp();
  for (u32 i = 0; i < p.group_top; ++i) {
    const u32 best = place_of_best(marks, p.groups);
    __syncwarp();
    if (threadIdx.x == 0) marks[best] = kOpen;
    __syncwarp();
  }
  for (u32 e = threadIdx.x; e < p.count; e += kWarpThreads) {
    if (marks[e / size] != kOpen) ranks[e] = kGone;
  }
  __syncwarp();
}

__device__ __forceinline__ void in_shared_memory(const RouteParameters& p, u32* ranks) {
  const Team team;
  const u32 row = blockIdx.x;
  const u8* const logits = p.logits + row * p.logits_pitch;
  const bool of_all = p.sigmoid == 0 && p.top_first == 0;
  Softmax softmax;
  double share = 0.0;
  if (of_all) {
    float most = minus_infinity();
    bool any_nan = false;
    for (u32 e = threadIdx.x; e < p.count; e += kWarpThreads) {
      const float x = load_number<kType>(logits, e);
      most = fmaxf(most, x);
      any_nan = any_nan || is_nan(x);
    }
    softmax.most = number_of(Team::largest(rank_of(most)));
    double sum = 0.0;
    for (u32 e = threadIdx.x; e < p.count; e += kWarpThreads) {
      sum += exact_power(load_number<kType>(logits, e), softmax.most);
    }
    sum = Team::sum(sum);
    softmax.sum = team.votes(any_nan) != 0 || !is_finite(softmax.most) ? not_a_number() : static_cast<float>(sum);
    share = reciprocal_of(sum);
  }
  for (u32 e = threadIdx.x; e < p.count; e += kWarpThreads) {
    const float x = load_number<kType>(logits, e);
    float key = x;
    if constexpr (kKeys == Keys::kScores) {
      if (!is_nan(x))
        key = p.sigmoid != 0 ? exact_sigmoid(x) : static_cast<float>(exact_power(x, softmax.most) * share);
    }
    if constexpr (kBias) key = __fadd_rn(key, p.bias[e]);
    ranks[e] = rank_of(key);
  }
  __syncwarp();
  if constexpr (kGrouped) close_groups_shared(p, ranks, ranks + p.count);
  Chosen chosen;
  for (u32 k = 0; k < p.top; ++k) {
    const u32 best = place_of_best(ranks, p.count);
    chosen.keep(team, k, best);
    __syncwarp();
    if (threadIdx.x == 0) ranks[best] = kGone;
    __syncwarp();
  }
  write_choices(p, team, row, true, chosen, softmax);
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS) ridge_route(const ridge::cuda::RouteParameters p) {
  using namespace ridge::cuda;
  if constexpr (kGeneral) {
    extern __shared__ u32 ranks[];
    in_shared_memory(p, ranks);
  } else {
    in_registers(p);
  }
}
