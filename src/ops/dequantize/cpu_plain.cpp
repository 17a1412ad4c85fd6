// What 8-bit codes with their scales stand for, y = q * scale: from the textbook loops on.
//
// With every tunable at its default the loop takes codes one by one, and a code becomes a float by arithmetic on its
// bits: shifts, comparisons and selections, which a compiler may turn into vectors. A table of 256 values replaces them
// by one load, which it may not. Conversion to bf16, groups of 128 columns and the single thread are what there is to
// gain on.
//
// Needs: scales in fp32 (not mx), y f32 or bf16. Any rows, cols and row strides.
//
// The library builds the configurations below (cpu_table goes before it); `ridge optimize dequantize` starts from the
// textbook.

// clang-format off
/* ridge-kernel
op = "dequantize"
rank = 50
[configs]
avx512_4 = { VECTOR = 16, UNROLL = 4, instructions = "avx512" }
avx2_4 = { VECTOR = 8, UNROLL = 4, instructions = "avx2" }
default = { }
*/
/* ridge-scope
dtype = ["f32", "bf16"]
scaling = ["tensor", "row", "1x128", "128x128"]
*/
/* ridge-tunables
[[tunable]]
name = "VECTOR"
values = [1, 4, 8, 16]
default = 1
kind = "structure"
category = "resource"
title = "fp32 lanes of one vector along a row"
effect = "one instruction widens, scales or rounds VECTOR elements"
model = "vector_width"

[[tunable]]
name = "UNROLL"
values = [1, 2, 4, 8]
default = 1
kind = "parameter"
category = "pipeline"
title = "vectors per trip"
effect = "independent conversions overlap, and there are fewer branches"
model = "unroll"

[[tunable]]
name = "TABLE"
values = [0, 1]
default = 0
kind = "structure"
category = "algorithm"
title = "look codes up in a table of 256 floats instead of computing on their bits"
effect = "a load for each element instead of a dozen operations, where these are no vectors"

[[tunable]]
name = "THREADS"
values = [1, 2, 4, 8, 16]
default = 1
kind = "structure"
category = "algorithm"
title = "threads at most, each with its own rows"
effect = "every core converts"
model = "threads"

[[constraint]]
expression = "TABLE == 0 || VECTOR == 1"
reason = "a vector computes its codes; a table serves one element at a time"
*/
// clang-format on

#include <stdint.h>

#include <initializer_list>

#include "ridge/candidate.h"

#ifndef VECTOR
#define VECTOR 1
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#ifndef TABLE
#define TABLE 0
#endif
#ifndef THREADS
#define THREADS 1
#endif

#if THREADS > 1
#include <pthread.h>
#endif

namespace {

using Index = int64_t;

constexpr Index kGroup = 128;  // elements along a side that share a scale
constexpr Index kTrip = VECTOR * UNROLL;

constexpr Index min_of(Index x, Index y) { return x < y ? x : y; }

// ---- 1. Elements ----------------------------------------------------------------------------------------------------

struct E4m3 {
  static constexpr int kShift = 20;  // of its mantissa to that of fp32
  static constexpr uint32_t kRebias = 120u << 23, kFirstNormal = 0x08, kFirstSpecial = 0x7f;
};
struct E5m2 {
  static constexpr int kShift = 21;
  static constexpr uint32_t kRebias = 112u << 23, kFirstNormal = 0x04, kFirstSpecial = 0x7c;
};

inline uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
inline float value_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

#if VECTOR == 1
using Vec = float;
using Bits = uint32_t;
inline Bits load(const uint8_t* from) { return *from; }
inline void narrow(float value, float* to) { *to = value; }
#else
typedef float Vec __attribute__((vector_size(4 * VECTOR)));
typedef uint32_t Bits __attribute__((vector_size(4 * VECTOR)));
typedef uint16_t Half __attribute__((vector_size(2 * VECTOR)));
typedef uint8_t Codes __attribute__((vector_size(VECTOR)));
typedef Vec LooseVec __attribute__((aligned(4)));  // the same at any address
typedef Half LooseHalf __attribute__((aligned(2)));
typedef Codes LooseCodes __attribute__((aligned(1)));

inline Bits load(const uint8_t* from) {
  return __builtin_convertvector(*reinterpret_cast<const LooseCodes*>(from), Bits);
}
inline Bits bits_of(Vec value) { return reinterpret_cast<Bits>(value); }
inline Vec value_of(Bits bits) { return reinterpret_cast<Vec>(bits); }
inline void narrow(float value, float* to) { *to = value; }
#endif

// The number of each code. Below the smallest normal one the mantissa counts steps that a difference of two normal
// floats gives exactly: no denormal float is computed with.
template <class F, class B>
inline auto decode(B code) {
  const B magnitude = code & 0x7f, shifted = magnitude << F::kShift;
  const B normal = shifted + F::kRebias;
  constexpr uint32_t kStep = F::kRebias + (1u << 23);
  const B small = bits_of(value_of(shifted + kStep) - value_of(B{} + kStep));
  B bits = magnitude < F::kFirstNormal ? small : normal;
  bits = magnitude < F::kFirstSpecial ? bits : shifted | 0x7f800000u;
  return value_of(bits | ((code & 0x80) << 24));
}

// To bf16: to nearest, ties to even; a NaN stays one.
template <class B>
inline B rounded(B bits) {
  const B nearest = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return (bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : nearest;
}
inline void narrow(float value, uint16_t* to) { *to = static_cast<uint16_t>(rounded(bits_of(value))); }

#if VECTOR == 1
template <class T>
inline void store(T* to, Vec value) {
  narrow(value, to);
}
#else
inline void store(float* to, Vec value) { *reinterpret_cast<LooseVec*>(to) = value; }
inline void store(uint16_t* to, Vec value) {
  *reinterpret_cast<LooseHalf*>(to) = __builtin_convertvector(rounded(bits_of(value)), Half);
}
#endif

// ---- 2. A piece of a row under one scale ----------------------------------------------------------------------------

#if TABLE
template <class F>
struct Values {
  float of[256];
  Values() {
    for (uint32_t code = 0; code < 256; ++code) of[code] = decode<F>(code);
  }
};
template <class F>
inline float number(uint8_t code, const Values<F>& values) {
  return values.of[code];
}
#else
template <class F>
struct Values {};
template <class F>
inline float number(uint8_t code, const Values<F>& /*values*/) {
  return decode<F>(static_cast<uint32_t>(code));
}
#endif

template <class F, class T>
void scale_piece(const uint8_t* q, Index count, float scale, T* y, const Values<F>& values) {
  Index i = 0;
#if VECTOR > 1
  for (; i + kTrip <= count; i += kTrip) {
#pragma GCC unroll 8
    for (int u = 0; u < UNROLL; ++u) store(y + i + u * VECTOR, decode<F>(load(q + i + u * VECTOR)) * scale);
  }
#else
  for (; i + kTrip <= count; i += kTrip) {
#pragma GCC unroll 8
    for (int u = 0; u < UNROLL; ++u) store(y + i + u, number<F>(q[i + u], values) * scale);
  }
#endif
  for (; i < count; ++i) narrow(number<F>(q[i], values) * scale, y + i);
}

// ---- 3. Rows --------------------------------------------------------------------------------------------------------

enum class Scaling { kTensor, kRow, kVector, kBlock };  // the values of the parameter `scaling`

template <class T>
struct Problem {
  Index rows, cols;
  const uint8_t* q;
  Index ldq;  // elements between consecutive rows
  Scaling scaling;
  const float* scale;
  Index ld_scale;
  T* y;
  Index ldy;
};

template <class T>
float scale_at(const Problem<T>& p, Index row, Index group) {
  switch (p.scaling) {
    case Scaling::kTensor: return p.scale[0];
    case Scaling::kRow: return p.scale[row];
    case Scaling::kVector: return p.scale[group * p.ld_scale + row];
    case Scaling::kBlock: break;
  }
  return p.scale[row / kGroup * p.ld_scale + group];
}

template <class F, class T>
void scale_rows(const Problem<T>& p, Index first, Index last) {
  const Values<F> values;
  const bool whole = p.scaling == Scaling::kTensor || p.scaling == Scaling::kRow;
  const Index piece = whole ? p.cols : kGroup;
  for (Index r = first; r < last; ++r) {
    for (Index c = 0; c < p.cols; c += piece)
      scale_piece<F>(p.q + r * p.ldq + c, min_of(piece, p.cols - c), scale_at(p, r, c / kGroup), p.y + r * p.ldy + c,
                     values);
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
  scale_rows<F>(*mine->problem, mine->first, mine->last);
  return nullptr;
}
#endif

template <class F, class T>
void run(const Problem<T>& p, [[maybe_unused]] Index threads) {
#if THREADS > 1
  const Index count = min_of(min_of(THREADS, threads), p.rows);
  pthread_t handles[THREADS];
  bool started[THREADS] = {};
  Share<T> shares[THREADS];
  for (Index i = count - 1; i >= 0; --i) {
    shares[i] = {&p, p.rows * i / count, p.rows * (i + 1) / count};
    started[i] = i > 0 && pthread_create(&handles[i], nullptr, run_share<F, T>, &shares[i]) == 0;
    if (!started[i]) run_share<F, T>(&shares[i]);  // the caller's own share comes last, and any that got no thread
  }
  for (Index i = 0; i < count; ++i) {
    if (started[i]) pthread_join(handles[i], nullptr);
  }
#else
  scale_rows<F>(p, 0, p.rows);
#endif
}

template <class T>
int dequantize(const ridge_call* call) {
  const ridge_tensor &q = call->operands[0], &scale = call->operands[1], &y = call->operands[2];
  const Problem<T> p{q.shape[0],
                     q.shape[1],
                     static_cast<const uint8_t*>(q.data),
                     q.stride[0],
                     static_cast<Scaling>(call->params[3]),
                     static_cast<const float*>(scale.data),
                     scale.rank == 2 ? scale.stride[0] : 0,
                     static_cast<T*>(y.data),
                     y.stride[0]};
  if (p.cols == 0) return 0;
  if (q.dtype == RIDGE_E5M2) {
    run<E5m2>(p, call->threads);
  } else {
    run<E4m3>(p, call->threads);
  }
  return 0;
}

}  // namespace

// ---- 5. The entry point ---------------------------------------------------------------------------------------------

extern "C" int ridge_kernel(const ridge_call* call) {
  if (call->version != RIDGE_CANDIDATE_VERSION || call->param_count < 5 || call->operand_count != 3) return 1;
  const ridge_tensor &q = call->operands[0], &scale = call->operands[1], &y = call->operands[2];
  for (const ridge_tensor* t : {&q, &y}) {
    if (t->rank != 2) return 2;
    if (t->shape[1] > 1 && t->stride[1] != 1) return 3;
  }
  if (q.dtype != RIDGE_E4M3FN && q.dtype != RIDGE_E5M2) return 2;
  if (scale.dtype != RIDGE_F32 || call->params[3] > static_cast<int64_t>(Scaling::kBlock)) return 2;
  if (y.dtype == RIDGE_F32) return dequantize<float>(call);
  return y.dtype == RIDGE_BF16 ? dequantize<uint16_t>(call) : 2;
}
