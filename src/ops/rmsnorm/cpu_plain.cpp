// y[r,:] = x[r,:] * rstd * weight, rstd = 1 / sqrt(mean of x[r,:]^2 + eps), f32 and bf16: from the textbook loops on.
//
// With every tunable at its default a row is read twice, one element at a time. The two passes are bound by different
// things: the squares by the chain of their sum, the products by loads, conversions and the store.
//
// Needs: a weight of the dtype of x, not zero-centred, no residual. Any rows, cols from 1, any row stride.
//
// The library builds the configurations below (cpu_rows goes before it); `ridge optimize rmsnorm` starts from the
// textbook.

// clang-format off
/* ridge-kernel
op = "rmsnorm"
rank = 50
[configs]
avx512_4 = { VECTOR = 16, UNROLL = 4, instructions = "avx512" }
avx2_4 = { VECTOR = 8, UNROLL = 4, instructions = "avx2" }
default = { }
*/
/* ridge-scope
dtype = ["f32", "bf16"]
weight = ["same"]
zero_centred = [0]
residual = [0]
*/
/* ridge-tunables
[[tunable]]
name = "VECTOR"
values = [1, 4, 8, 16]
default = 1
kind = "structure"
category = "resource"
title = "fp32 lanes of one vector along a row"
effect = "one instruction squares, scales or converts VECTOR elements"
model = "vector_width"

[[tunable]]
name = "UNROLL"
values = [1, 2, 4, 8]
default = 1
kind = "parameter"
category = "pipeline"
title = "vectors per trip, each with a sum of its own"
effect = "an addition no longer waits for the one before"
model = "unroll"

[[tunable]]
name = "KEEP"
values = [0, 1]
default = 0
kind = "structure"
category = "layout"
title = "keep the row in fp32 from the first pass for the second"
effect = "bf16 is converted once"

[[tunable]]
name = "WIDE_WEIGHT"
values = [0, 1]
default = 0
kind = "structure"
category = "layout"
title = "convert the weight to fp32 once for all rows of a thread"
effect = "one conversion less for each element"

[[tunable]]
name = "PREFETCH"
values = [0, 8, 16, 32]
default = 0
kind = "parameter"
category = "pipeline"
title = "cache lines that are asked for ahead of the first pass"
effect = "rows that lie in memory arrive before they are read"
model = "prefetch"

[[tunable]]
name = "THREADS"
values = [1, 2, 4, 8, 16]
default = 1
kind = "structure"
category = "algorithm"
title = "threads at most, each with its own rows"
effect = "every core normalises"
model = "threads"

[[constraint]]
expression = "PREFETCH == 0 || VECTOR > 1"
reason = "a prefetch for every element costs more than it brings"
*/
// clang-format on

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include <initializer_list>

#include "ridge/candidate.h"

#ifndef VECTOR
#define VECTOR 1
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#ifndef KEEP
#define KEEP 0
#endif
#ifndef WIDE_WEIGHT
#define WIDE_WEIGHT 0
#endif
#ifndef PREFETCH
#define PREFETCH 0
#endif
#ifndef THREADS
#define THREADS 1
#endif

#if THREADS > 1
#include <pthread.h>
#endif

namespace {

using Index = int64_t;

[[maybe_unused]] constexpr Index min_of(Index x, Index y) { return x < y ? x : y; }

// ---- 1. Elements ----------------------------------------------------------------------------------------------------

inline uint32_t bits_of(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float widen(float value) { return value; }
inline float widen(uint16_t bf16) {
  const uint32_t bits = static_cast<uint32_t>(bf16) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

inline void narrow(float value, float* to) { *to = value; }
// To nearest, ties to even; a NaN stays one.
inline void narrow(float value, uint16_t* to) {
  const uint32_t bits = bits_of(value), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  *to = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : rounded);
}

// ---- 2. Vectors -----------------------------------------------------------------------------------------------------

#if VECTOR == 1
using Vec = float;
template <class T>
inline Vec load(const T* from) {
  return widen(*from);
}
template <class T>
inline void store(T* to, Vec value) {
  narrow(value, to);
}
inline double total(Vec value) { return value; }
#else
typedef float Vec __attribute__((vector_size(4 * VECTOR)));
typedef uint32_t Bits __attribute__((vector_size(4 * VECTOR)));
typedef uint16_t Half __attribute__((vector_size(2 * VECTOR)));
typedef Vec LooseVec __attribute__((aligned(4)));  // the same at any address
typedef Half LooseHalf __attribute__((aligned(2)));

inline Vec load(const float* from) { return *reinterpret_cast<const LooseVec*>(from); }
inline Vec load(const uint16_t* from) {
  const Half half = *reinterpret_cast<const LooseHalf*>(from);
  return reinterpret_cast<Vec>(__builtin_convertvector(half, Bits) << 16);
}
inline void store(float* to, Vec value) { *reinterpret_cast<LooseVec*>(to) = value; }
inline void store(uint16_t* to, Vec value) {
  const Bits bits = reinterpret_cast<Bits>(value), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const Bits chosen = (bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : rounded;
  *reinterpret_cast<LooseHalf*>(to) = __builtin_convertvector(chosen, Half);
}
inline double total(Vec value) {
  double sum = 0;
  for (int lane = 0; lane < VECTOR; ++lane) sum += value[lane];
  return sum;
}
#endif

constexpr Index kTrip = VECTOR * UNROLL;

// ---- 3. Rows --------------------------------------------------------------------------------------------------------

template <class T>
struct Rows {
  Index count, cols;
  const T* x;
  Index ldx;  // elements between consecutive rows
  const T* weight;
  T* y;
  Index ldy;
  float* rstd;  // null: not wanted
  Index ld_rstd;
  float eps;
};

#if VECTOR * UNROLL == 1
// The textbook: one running sum, in double so that long rows stay right.
template <class T>
double squares(const T* x, Index cols, [[maybe_unused]] float* kept) {
  double sum = 0;
  for (Index j = 0; j < cols; ++j) {
    const float value = widen(x[j]);
#if KEEP
    kept[j] = value;
#endif
    sum += static_cast<double>(value) * value;
  }
  return sum;
}
#else
template <class T>
double squares(const T* x, Index cols, [[maybe_unused]] float* kept) {
  Vec sums[UNROLL] = {};
  Index j = 0;
  for (; j + kTrip <= cols; j += kTrip) {
#if PREFETCH
    for (Index byte = 0; byte < kTrip * static_cast<Index>(sizeof(T)); byte += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(x + j) + 64 * PREFETCH + byte);
#endif
#pragma GCC unroll 8
    for (int u = 0; u < UNROLL; ++u) {
      const Vec value = load(x + j + u * VECTOR);
#if KEEP
      store(kept + j + u * VECTOR, value);
#endif
      sums[u] += value * value;
    }
  }
  double sum = 0;
  for (const Vec& one : sums) sum += total(one);
  for (; j < cols; ++j) {
    const float value = widen(x[j]);
#if KEEP
    kept[j] = value;
#endif
    sum += static_cast<double>(value) * value;
  }
  return sum;
}
#endif

template <class From, class W, class T>
void scale_row(const From* x, const W* weight, float rstd, Index cols, T* y) {
  Index j = 0;
  for (; j + kTrip <= cols; j += kTrip) {
#pragma GCC unroll 8
    for (int u = 0; u < UNROLL; ++u) {
      const Index at = j + u * VECTOR;
      store(y + at, load(x + at) * rstd * load(weight + at));
    }
  }
  for (; j < cols; ++j) narrow(widen(x[j]) * rstd * widen(weight[j]), y + j);
}

template <class T, class W>
void normalise(const Rows<T>& r, const W* weight, [[maybe_unused]] float* kept) {
  for (Index i = 0; i < r.count; ++i) {
    const T* x = r.x + i * r.ldx;
    const double mean = squares(x, r.cols, kept) / static_cast<double>(r.cols);
    const auto rstd = static_cast<float>(1 / sqrt(mean + static_cast<double>(r.eps)));
    if (r.rstd != nullptr) r.rstd[i * r.ld_rstd] = rstd;
#if KEEP
    scale_row(kept, weight, rstd, r.cols, r.y + i * r.ldy);
#else
    scale_row(x, weight, rstd, r.cols, r.y + i * r.ldy);
#endif
  }
}

// False where memory ran out.
template <class T>
bool normalise_all(const Rows<T>& r) {
  float* const memory =
      KEEP + WIDE_WEIGHT == 0
          ? nullptr
          : static_cast<float*>(malloc(static_cast<size_t>(r.cols) * (KEEP + WIDE_WEIGHT) * sizeof(float)));
  if (memory == nullptr && KEEP + WIDE_WEIGHT > 0) return false;
#if WIDE_WEIGHT
  float* const weight = memory + (KEEP ? r.cols : 0);
  for (Index j = 0; j < r.cols; ++j) weight[j] = widen(r.weight[j]);
#else
  const T* const weight = r.weight;
#endif
  normalise(r, weight, memory);
  free(memory);
  return true;
}

// ---- 4. Threads -----------------------------------------------------------------------------------------------------

#if THREADS > 1
template <class T>
struct Share {
  Rows<T> rows;
  bool done;
};

template <class T>
void* run_share(void* share) {
  auto* mine = static_cast<Share<T>*>(share);
  mine->done = normalise_all(mine->rows);
  return nullptr;
}
#endif

template <class T>
bool run(const Rows<T>& r, [[maybe_unused]] Index threads) {
#if THREADS > 1
  const Index count = min_of(min_of(THREADS, threads), r.count);
  pthread_t handles[THREADS];
  bool started[THREADS] = {};
  Share<T> shares[THREADS];
  for (Index i = count - 1; i >= 0; --i) {
    const Index from = r.count * i / count;
    Rows<T> part = r;
    part.count = r.count * (i + 1) / count - from;
    part.x += from * r.ldx;
    part.y += from * r.ldy;
    if (part.rstd != nullptr) part.rstd += from * r.ld_rstd;
    shares[i] = {part, false};
    started[i] = i > 0 && pthread_create(&handles[i], nullptr, run_share<T>, &shares[i]) == 0;
    if (!started[i]) run_share<T>(&shares[i]);  // the caller's own share comes last, and any that got no thread
  }
  bool done = true;
  for (Index i = 0; i < count; ++i) {
    if (started[i]) pthread_join(handles[i], nullptr);
    done = done && shares[i].done;
  }
  return done;
#else
  return normalise_all(r);
#endif
}

template <class T>
int normalise_call(const ridge_call* call) {
  const ridge_tensor &x = call->operands[0], &weight = call->operands[1], &y = call->operands[2];
  const ridge_tensor* const rstd = call->operand_count == 4 ? &call->operands[3] : nullptr;
  const Rows<T> rows{x.shape[0],
                     x.shape[1],
                     static_cast<const T*>(x.data),
                     x.stride[0],
                     static_cast<const T*>(weight.data),
                     static_cast<T*>(y.data),
                     y.stride[0],
                     rstd == nullptr ? nullptr : static_cast<float*>(rstd->data),
                     rstd == nullptr ? 0 : rstd->stride[0],
                     call->scalars[0].f32};
  return rows.count == 0 || run(rows, call->threads) ? 0 : 5;
}

}  // namespace

// ---- 5. The entry point ---------------------------------------------------------------------------------------------

extern "C" int ridge_kernel(const ridge_call* call) {
  if (call->version != RIDGE_CANDIDATE_VERSION || call->operand_count < 3 || call->operand_count > 4) return 1;
  const ridge_tensor &x = call->operands[0], &weight = call->operands[1], &y = call->operands[2];
  if (x.dtype != weight.dtype || x.dtype != y.dtype || x.rank != 2 || weight.rank != 1 || call->scalar_count != 1)
    return 2;
  for (const ridge_tensor* t : {&x, &y}) {
    if (t->shape[1] > 1 && t->stride[1] != 1) return 3;
  }
  if (weight.shape[0] > 1 && weight.stride[0] != 1) return 3;
  if (x.dtype == RIDGE_F32) return normalise_call<float>(call);
  return x.dtype == RIDGE_BF16 ? normalise_call<uint16_t>(call) : 2;
}
