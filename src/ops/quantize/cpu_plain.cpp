// A matrix as 8-bit floats with a scale for every 1 x 128 elements, and the same of its transpose: from the textbook
// loops on.
//
//   scale = largest |x| of 128 elements / largest code          q = the code nearest to x / scale
//
// With every tunable at its default elements are taken one by one, and the transposed copy walks down the columns of x:
// a cache line for every element. Division, rounding and that walk are what there is to gain on.
//
// Needs: x f32 or bf16, scaling 1x128 with scales in fp32, rounding to nearest. Any rows, cols and row strides.
//
// The library builds the configurations below (cpu_panels goes before it); `ridge optimize quantize` starts from the
// textbook.

// clang-format off
/* ridge-kernel
op = "quantize"
rank = 50
[configs]
avx512_64 = { VECTOR = 16, BLOCK = 64, instructions = "avx512" }
avx2_64 = { VECTOR = 8, BLOCK = 64, instructions = "avx2" }
default = { }
*/
/* ridge-scope
dtype = ["f32", "bf16"]
scaling = ["1x128"]
scale = ["f32"]
rounding = ["nearest"]
amax = ["own"]
*/
/* ridge-tunables
[[tunable]]
name = "VECTOR"
values = [1, 4, 8, 16]
default = 1
kind = "structure"
category = "resource"
title = "fp32 lanes of one vector"
effect = "one instruction divides or rounds VECTOR elements"
model = "vector_width"

[[tunable]]
name = "BLOCK"
values = [0, 16, 32, 64, 128]
default = 0
kind = "structure"
category = "layout"
title = "columns of a tile of 128 rows that is transposed in the cache (0: walk down each column of x)"
effect = "x is read in whole cache lines for the transposed copy"

[[tunable]]
name = "RECIPROCAL"
values = [0, 1]
default = 0
kind = "structure"
category = "algorithm"
title = "multiply by the rounded reciprocal of the scale instead of dividing"
effect = "a division for 128 elements instead of 128 of them"

[[tunable]]
name = "THREADS"
values = [1, 2, 4, 8, 16]
default = 1
kind = "structure"
category = "algorithm"
title = "threads at most, each with whole groups of 128 rows"
effect = "every core quantises"
model = "threads"
*/
// clang-format on

#include <float.h>
#include <stdint.h>

#include "ridge/candidate.h"

#ifndef VECTOR
#define VECTOR 1
#endif
#ifndef BLOCK
#define BLOCK 0
#endif
#ifndef RECIPROCAL
#define RECIPROCAL 0
#endif
#ifndef THREADS
#define THREADS 1
#endif

#if THREADS > 1
#include <pthread.h>
#endif

namespace {

using Index = int64_t;

constexpr Index kGroup = 128;  // elements that share a scale

constexpr Index min_of(Index x, Index y) { return x < y ? x : y; }
constexpr Index ceil_div(Index x, Index y) { return (x + y - 1) / y; }

// ---- 1. Elements ----------------------------------------------------------------------------------------------------

inline uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
inline float value_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline float widen(float value) { return value; }
inline float widen(uint16_t bf16) { return value_of(static_cast<uint32_t>(bf16) << 16); }

struct E4m3 {
  static constexpr int kMantissa = 3;
  static constexpr uint32_t kBias = 7, kInfinity = 0x7f;  // it has none: NaN
  static constexpr float kLargest = 448;
};
struct E5m2 {
  static constexpr int kMantissa = 2;
  static constexpr uint32_t kBias = 15, kInfinity = 0x7c;
  static constexpr float kLargest = 57344;
};

#if VECTOR == 1
using Vec = float;
using Bits = uint32_t;
template <class T>
inline Vec load(const T* from) {
  return widen(*from);
}
inline void store(uint8_t* to, Bits codes) { *to = static_cast<uint8_t>(codes); }
inline float largest_lane(Vec value) { return value; }
#else
typedef float Vec __attribute__((vector_size(4 * VECTOR)));
typedef uint32_t Bits __attribute__((vector_size(4 * VECTOR)));
typedef uint16_t Half __attribute__((vector_size(2 * VECTOR)));
typedef uint8_t Codes __attribute__((vector_size(VECTOR)));
typedef Vec LooseVec __attribute__((aligned(4)));  // the same at any address
typedef Half LooseHalf __attribute__((aligned(2)));
typedef Codes LooseCodes __attribute__((aligned(1)));

inline Vec load(const float* from) { return *reinterpret_cast<const LooseVec*>(from); }
inline Vec load(const uint16_t* from) {
  const Half half = *reinterpret_cast<const LooseHalf*>(from);
  return reinterpret_cast<Vec>(__builtin_convertvector(half, Bits) << 16);
}
inline Bits bits_of(Vec value) { return reinterpret_cast<Bits>(value); }
inline Vec value_of(Bits bits) { return reinterpret_cast<Vec>(bits); }
inline void store(uint8_t* to, Bits codes) {
  *reinterpret_cast<LooseCodes*>(to) = __builtin_convertvector(codes, Codes);
}
inline float largest_lane(Vec value) {
  float largest = 0;
  for (int lane = 0; lane < VECTOR; ++lane) largest = value[lane] > largest ? value[lane] : largest;
  return largest;
}
#endif

// The magnitude, 0 for what is not finite.
template <class V>
inline V finite_magnitude(V value) {
  const V magnitude = value_of(bits_of(value) & 0x7fffffff);
  return magnitude <= FLT_MAX ? magnitude : V{};
}

// The code nearest to each value, ties to even. Below the smallest normal number a sum with a power of two rounds: its
// last bit is worth the smallest code.
template <class F, class V>
inline auto encode(V value) {
  using B = decltype(bits_of(value));
  constexpr int kShift = 23 - F::kMantissa;
  constexpr float kSmallest = __builtin_bit_cast(float, (127 - F::kBias + 1) << 23);  // normal
  constexpr float kRounder = __builtin_bit_cast(float, (127 - F::kBias + 1 + kShift) << 23);
  const B bits = bits_of(value), sign = (bits >> 24) & 0x80;
  const V magnitude = value_of(bits & 0x7fffffff);
  const V bounded = magnitude < F::kLargest ? magnitude : V{} + F::kLargest;
  const B plain = bits_of(bounded);
  const B normal =
      ((plain + ((1u << (kShift - 1)) - 1) + ((plain >> kShift) & 1)) >> kShift) - ((127 - F::kBias) << F::kMantissa);
  const B small = bits_of(bounded + kRounder) - __builtin_bit_cast(uint32_t, kRounder);
  B code = bounded < kSmallest ? small : normal;
  code = magnitude <= FLT_MAX ? code
                              : (magnitude > FLT_MAX ? B{} + F::kInfinity : B{} + 0x7fu);  // NaN compares with nothing
  return code | sign;
}

// ---- 2. A group -----------------------------------------------------------------------------------------------------

inline float scale_for(float largest, float largest_code) {
  if (largest == 0) return 1;
  const float scale = largest / largest_code;
  return scale < FLT_MIN ? FLT_MIN : scale;
}

// Codes of up to 128 adjacent elements, and their scale.
template <class F, class T>
void quantize_group(const T* x, Index count, uint8_t* q, float* scale) {
  const Index whole = count / VECTOR * VECTOR;
  Vec most = {};
  for (Index i = 0; i < whole; i += VECTOR) {
    const Vec magnitude = finite_magnitude(load(x + i));
    most = magnitude > most ? magnitude : most;
  }
  float largest = largest_lane(most);
  for (Index i = whole; i < count; ++i) {
    const float magnitude = finite_magnitude(widen(x[i]));
    largest = magnitude > largest ? magnitude : largest;
  }
  *scale = scale_for(largest, F::kLargest);
#if RECIPROCAL
  const float factor = 1 / *scale;
  const auto quotient = [factor](auto value) { return value * factor; };
#else
  const float divisor = *scale;
  const auto quotient = [divisor](auto value) { return value / divisor; };
#endif
  for (Index i = 0; i < whole; i += VECTOR) {
    store(q + i, encode<F>(quotient(load(x + i))));
  }
  for (Index i = whole; i < count; ++i) {
    q[i] = static_cast<uint8_t>(encode<F>(quotient(widen(x[i]))));
  }
}

// ---- 3. Both copies -------------------------------------------------------------------------------------------------

template <class T>
struct Problem {
  Index rows, cols;
  const T* x;
  Index ldx;   // elements between consecutive rows
  uint8_t* q;  // null: not wanted
  Index ldq;
  float* scale;  // of the group of 128 columns, then of the row
  Index ld_scale;
  uint8_t* q_t;
  Index ldq_t;
  float* scale_t;
  Index ld_scale_t;
};

template <class F, class T>
void quantize_rows(const Problem<T>& p, Index from, Index to) {
  for (Index r = from; r < to; ++r) {
    for (Index c = 0; c < p.cols; c += kGroup)
      quantize_group<F>(p.x + r * p.ldx + c, min_of(kGroup, p.cols - c), p.q + r * p.ldq + c,
                        p.scale + c / kGroup * p.ld_scale + r);
  }
}

// Of up to 128 rows: a group of every column.
template <class F, class T>
void quantize_columns(const Problem<T>& p, Index from, Index to) {
  const Index count = to - from;
  const auto column = [&](Index c, const float* values) {
    quantize_group<F>(values, count, p.q_t + c * p.ldq_t + from, p.scale_t + from / kGroup * p.ld_scale_t + c);
  };
#if BLOCK
  alignas(64) float tile[BLOCK][kGroup];
  for (Index first = 0; first < p.cols; first += BLOCK) {
    const Index width = min_of(BLOCK, p.cols - first);
    for (Index i = 0; i < count; ++i) {
      const T* row = p.x + (from + i) * p.ldx + first;
      for (Index c = 0; c < width; ++c) tile[c][i] = widen(row[c]);
    }
    for (Index c = 0; c < width; ++c) column(first + c, tile[c]);
  }
#else
  alignas(64) float values[kGroup];
  for (Index c = 0; c < p.cols; ++c) {
    for (Index i = 0; i < count; ++i) values[i] = widen(p.x[(from + i) * p.ldx + c]);
    column(c, values);
  }
#endif
}

template <class F, class T>
void quantize_groups(const Problem<T>& p, Index first, Index last) {
  for (Index group = first; group < last; ++group) {
    const Index from = group * kGroup, to = min_of(from + kGroup, p.rows);
    if (p.q != nullptr) quantize_rows<F>(p, from, to);
    if (p.q_t != nullptr) quantize_columns<F>(p, from, to);
  }
}

// ---- 4. Threads -----------------------------------------------------------------------------------------------------

#if THREADS > 1
template <class T>
struct Share {
  const Problem<T>* problem;
  Index first, last;
};

template <class F, class T>
void* run_share(void* share) {
  const auto* mine = static_cast<const Share<T>*>(share);
  quantize_groups<F>(*mine->problem, mine->first, mine->last);
  return nullptr;
}
#endif

template <class F, class T>
void run(const Problem<T>& p, [[maybe_unused]] Index threads) {
  const Index groups = ceil_div(p.rows, kGroup);
#if THREADS > 1
  const Index count = min_of(min_of(THREADS, threads), groups);
  pthread_t handles[THREADS];
  bool started[THREADS] = {};
  Share<T> shares[THREADS];
  for (Index i = count - 1; i >= 0; --i) {
    shares[i] = {&p, groups * i / count, groups * (i + 1) / count};
    started[i] = i > 0 && pthread_create(&handles[i], nullptr, run_share<F, T>, &shares[i]) == 0;
    if (!started[i]) run_share<F, T>(&shares[i]);  // the caller's own share comes last, and any that got no thread
  }
  for (Index i = 0; i < count; ++i) {
    if (started[i]) pthread_join(handles[i], nullptr);
  }
#else
  quantize_groups<F>(p, 0, groups);
#endif
}

template <class T>
int quantize(const ridge_call* call) {
  const ridge_tensor& x = call->operands[0];
  Problem<T> p{};
  p.rows = x.shape[0], p.cols = x.shape[1];
  p.x = static_cast<const T*>(x.data), p.ldx = x.stride[0];
  constexpr int kRowCopy = 0, kColumnCopy = 1;  // the parameter `copies`; 2 is both
  const int64_t copies = call->params[6];
  const ridge_tensor* next = call->operands + 1;
  if (copies != kColumnCopy) {
    p.q = static_cast<uint8_t*>(next[0].data), p.ldq = next[0].stride[0];
    p.scale = static_cast<float*>(next[1].data), p.ld_scale = next[1].stride[0];
    next += 2;
  }
  if (copies != kRowCopy) {
    p.q_t = static_cast<uint8_t*>(next[0].data), p.ldq_t = next[0].stride[0];
    p.scale_t = static_cast<float*>(next[1].data), p.ld_scale_t = next[1].stride[0];
  }
  if (call->operands[1].dtype == RIDGE_E5M2) {
    run<E5m2>(p, call->threads);
  } else {
    run<E4m3>(p, call->threads);
  }
  return 0;
}

}  // namespace

// ---- 5. The entry point ---------------------------------------------------------------------------------------------

extern "C" int ridge_kernel(const ridge_call* call) {
  if (call->version != RIDGE_CANDIDATE_VERSION || call->param_count < 7) return 1;
  if (call->operand_count != 3 && call->operand_count != 5) return 1;
  for (int32_t i = 0; i < call->operand_count; ++i) {
    const ridge_tensor& t = call->operands[i];
    if (t.rank != 2) return 2;
    if (t.shape[1] > 1 && t.stride[1] != 1) return 3;
  }
  const int32_t code = call->operands[1].dtype;
  if (code != RIDGE_E4M3FN && code != RIDGE_E5M2) return 2;
  if (call->operands[0].dtype == RIDGE_F32) return quantize<float>(call);
  return call->operands[0].dtype == RIDGE_BF16 ? quantize<uint16_t>(call) : 2;
}
