// C[m,n] = A[m,k] * B[n,k]^T of 8-bit floats, A with a scale for every 1 x 128 elements, B for every 128 x 128 (or 1 x
// 128): from the textbook loops on.
//
// With every tunable at its default this is the textbook triple loop, which decodes both codes for every product: 2 m n
// k times arithmetic on bits for m n k multiply-adds. Sums of 128 products stay in fp32 without scales and are scaled
// when they are added up, so that the inner loop is that of a plain product. What there is to gain: to decode each code
// once (UNPACK), then vectors along k, a tile of sums in registers, and threads.
//
// Needs: layout nt, scales in fp32 along k, C f32 or bf16, neither bias nor accumulation. Any m, n, k and row strides.
//
// The library builds the configurations below (cpu_simd goes before it); `ridge optimize gemm_fp8` starts from the
// textbook.

// clang-format off
/* ridge-kernel
op = "gemm_fp8"
rank = 50
[configs]
avx512_4x4 = { UNPACK = 1, VECTOR = 16, MR = 4, NR = 4, instructions = "avx512" }
avx2_2x4 = { UNPACK = 1, VECTOR = 8, MR = 2, NR = 4, instructions = "avx2" }
default = { }
*/
/* ridge-scope
out = ["f32", "bf16"]
layout = ["nt"]
accumulate = [0]
scaling = ["block", "vector"]
bias = [0]
*/
/* ridge-tunables
[[tunable]]
name = "UNPACK"
values = [0, 1]
default = 0
kind = "structure"
category = "layout"
title = "decode rows of A and B into fp32 once, before they are multiplied"
effect = "the inner loop multiplies and adds, and a code is not decoded again for every element of C"
model = "pack"

[[tunable]]
name = "VECTOR"
values = [1, 4, 8, 16]
default = 1
kind = "structure"
category = "resource"
title = "fp32 lanes of one vector along k"
effect = "one instruction does VECTOR multiply-adds"
model = "vector_width"

[[tunable]]
name = "MR"
values = [1, 2, 3, 4, 6]
default = 1
kind = "parameter"
category = "tile"
title = "rows of the register tile"
effect = "a loaded vector of B is used MR times; MR * NR independent sums hide the latency of the multiply-add"
model = "register_rows"
group = "register tile"

[[tunable]]
name = "NR"
values = [1, 2, 3, 4, 6]
default = 1
kind = "parameter"
category = "tile"
title = "columns of the register tile"
effect = "a loaded vector of A is used NR times"
model = "register_cols"
group = "register tile"

[[tunable]]
name = "PANEL"
values = [16, 32, 64, 128, 256]
default = 64
kind = "parameter"
category = "tile"
title = "rows of B that are decoded at a time"
effect = "they stay in the cache for all of A; rows of A are decoded again for every panel"
needs = "UNPACK == 1"

[[tunable]]
name = "THREADS"
values = [1, 2, 4, 8, 16]
default = 1
kind = "structure"
category = "algorithm"
title = "threads at most, each with its own rows of C"
effect = "every core multiplies"
model = "threads"

[[constraint]]
expression = "UNPACK == 1 || VECTOR * MR * NR == 1"
reason = "vectors and tiles of sums read decoded rows"
[[constraint]]
expression = "MR * NR <= 16"
reason = "the sums, a vector of A and NR of B live in 32 vector registers"
*/
// clang-format on

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include <initializer_list>

#include "ridge/candidate.h"

#ifndef UNPACK
#define UNPACK 0
#endif
#ifndef VECTOR
#define VECTOR 1
#endif
#ifndef MR
#define MR 1
#endif
#ifndef NR
#define NR 1
#endif
#ifndef PANEL
#define PANEL 64
#endif
#ifndef THREADS
#define THREADS 1
#endif

#if THREADS > 1
#include <pthread.h>
#endif

namespace {

using Index = int64_t;

constexpr Index kGroup = 128;  // steps of k that share a scale

constexpr Index min_of(Index x, Index y) { return x < y ? x : y; }
[[maybe_unused]] constexpr Index round_up(Index x, Index y) { return (x + y - 1) / y * y; }

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

// The number of a code. Below the smallest normal one the mantissa counts steps that a difference of two normal floats
// gives exactly: no denormal float is computed with.
template <class F>
inline float decode(uint8_t code) {
  const uint32_t magnitude = code & 0x7f, shifted = magnitude << F::kShift;
  constexpr uint32_t kStep = F::kRebias + (1u << 23);
  const uint32_t small = bits_of(value_of(shifted + kStep) - value_of(kStep));
  uint32_t bits = magnitude < F::kFirstNormal ? small : shifted + F::kRebias;
  bits = magnitude < F::kFirstSpecial ? bits : shifted | 0x7f800000u;
  return value_of(bits | (static_cast<uint32_t>(code & 0x80) << 24));
}

inline void narrow(float value, float* to) { *to = value; }
// To nearest, ties to even; a NaN stays one.
inline void narrow(float value, uint16_t* to) {
  const uint32_t bits = bits_of(value), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  *to = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : rounded);
}

// ---- 2. What is multiplied ------------------------------------------------------------------------------------------

template <class T>
struct Problem {
  Index m, n, k;
  const uint8_t* a;
  Index lda;  // elements between consecutive rows
  const uint8_t* b;
  Index ldb;
  const float* scale_a;  // of the group of k, then of the row
  Index ld_scale_a;
  const float* scale_b;  // of the block of 128 rows, then of the group; or as those of A
  Index ld_scale_b;
  bool blocks;
  T* c;
  Index ldc;
};

template <class T>
inline float scale_of_a(const Problem<T>& p, Index row, Index group) {
  return p.scale_a[group * p.ld_scale_a + row];
}
template <class T>
inline float scale_of_b(const Problem<T>& p, Index row, Index group) {
  return p.blocks ? p.scale_b[row / kGroup * p.ld_scale_b + group] : p.scale_b[group * p.ld_scale_b + row];
}

#if UNPACK == 0

// ---- 3. The textbook ------------------------------------------------------------------------------------------------

template <class A, class B, class T>
bool multiply(const Problem<T>& p) {
  for (Index i = 0; i < p.m; ++i) {
    for (Index j = 0; j < p.n; ++j) {
      const uint8_t *a = p.a + i * p.lda, *b = p.b + j * p.ldb;
      float sum = 0;
      for (Index k = 0; k < p.k; k += kGroup) {
        float part = 0;
        for (Index s = k; s < min_of(k + kGroup, p.k); ++s) part += decode<A>(a[s]) * decode<B>(b[s]);
        sum += part * scale_of_a(p, i, k / kGroup) * scale_of_b(p, j, k / kGroup);
      }
      narrow(sum, p.c + i * p.ldc + j);
    }
  }
  return true;
}

#else

// ---- 4. Decoded rows ------------------------------------------------------------------------------------------------
// Rows of fp32, filled up with zeros to whole vectors, and a cache line apart from whole pages: rows of a tile start in
// different cache sets.

#if VECTOR == 1
using Vec = float;
inline float total(Vec value) { return value; }
#else
typedef float Vec __attribute__((vector_size(4 * VECTOR)));
inline float total(Vec value) {
  float sum = 0;
  for (int lane = 0; lane < VECTOR; ++lane) sum += value[lane];
  return sum;
}
#endif

constexpr Index kLine = 16;  // elements of a cache line

Index row_length(Index k) { return round_up(k, kLine) + kLine; }

template <class F>
void unpack(const uint8_t* codes, Index count, float* __restrict to) {
  for (Index i = 0; i < count; ++i) to[i] = decode<F>(codes[i]);
  for (Index i = count; i < round_up(count, kLine); ++i) to[i] = 0;
}

// ---- 5. The register tile -------------------------------------------------------------------------------------------
// ROWS x COLS sums of VECTOR lanes; the lanes are added up once, at the end.

template <int ROWS, int COLS, class T>
void run_tile(const Problem<T>& p, const float* a, const float* b, Index i, Index j) {
  const Index length = row_length(p.k);
  Vec sum[ROWS][COLS] = {};
  for (Index k = 0; k < p.k; k += kGroup) {
    Vec part[ROWS][COLS] = {};
    for (Index s = k; s < min_of(k + kGroup, p.k); s += VECTOR) {
      Vec right[COLS];
#pragma GCC unroll 8
      for (int c = 0; c < COLS; ++c) right[c] = *reinterpret_cast<const Vec*>(b + c * length + s);
#pragma GCC unroll 8
      for (int r = 0; r < ROWS; ++r) {
        const Vec left = *reinterpret_cast<const Vec*>(a + r * length + s);
#pragma GCC unroll 8
        for (int c = 0; c < COLS; ++c) part[r][c] += left * right[c];
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < COLS; ++c)
        sum[r][c] += part[r][c] * scale_of_a(p, i + r, k / kGroup) * scale_of_b(p, j + c, k / kGroup);
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    for (int c = 0; c < COLS; ++c) narrow(total(sum[r][c]), p.c + (i + r) * p.ldc + j + c);
  }
}

// ROWS rows of C over the columns of a panel; those that fill no whole tile go one by one.
template <int ROWS, class T>
void run_columns(const Problem<T>& p, const float* a, const float* panel, Index i, Index first, Index last) {
  const Index length = row_length(p.k);
  Index j = first;
  for (; j + NR <= last; j += NR) run_tile<ROWS, NR>(p, a, panel + (j - first) * length, i, j);
  for (; j < last; ++j) run_tile<ROWS, 1>(p, a, panel + (j - first) * length, i, j);
}

template <class A, class B, class T>
bool multiply(const Problem<T>& p) {
  const Index length = row_length(p.k);
  const auto bytes = static_cast<size_t>((PANEL + MR) * length) * sizeof(float);  // whole cache lines
  auto* const panel = static_cast<float*>(aligned_alloc(64, bytes));
  if (panel == nullptr) return false;
  float* const rows = panel + PANEL * length;
  for (Index first = 0; first < p.n; first += PANEL) {
    const Index last = min_of(first + PANEL, p.n);
    for (Index j = first; j < last; ++j) unpack<B>(p.b + j * p.ldb, p.k, panel + (j - first) * length);
    Index i = 0;
    for (; i + MR <= p.m; i += MR) {
      for (Index r = 0; r < MR; ++r) unpack<A>(p.a + (i + r) * p.lda, p.k, rows + r * length);
      run_columns<MR>(p, rows, panel, i, first, last);
    }
    for (; i < p.m; ++i) {
      unpack<A>(p.a + i * p.lda, p.k, rows);
      run_columns<1>(p, rows, panel, i, first, last);
    }
  }
  free(panel);
  return true;
}

#endif

// ---- 6. Threads -----------------------------------------------------------------------------------------------------

#if THREADS > 1
template <class T>
struct Share {
  Problem<T> problem;
  bool done;
};

template <class A, class B, class T>
void* run_share(void* share) {
  auto* mine = static_cast<Share<T>*>(share);
  mine->done = multiply<A, B>(mine->problem);
  return nullptr;
}
#endif

template <class A, class B, class T>
bool run(const Problem<T>& p, [[maybe_unused]] Index threads) {
#if THREADS > 1
  const Index count = min_of(min_of(THREADS, threads), p.m);
  pthread_t handles[THREADS];
  bool started[THREADS] = {};
  Share<T> shares[THREADS];
  for (Index i = count - 1; i >= 0; --i) {
    const Index from = p.m * i / count;
    Problem<T> part = p;
    part.m = p.m * (i + 1) / count - from;
    part.a += from * p.lda;
    part.scale_a += from;
    part.c += from * p.ldc;
    shares[i] = {part, false};
    started[i] = i > 0 && pthread_create(&handles[i], nullptr, run_share<A, B, T>, &shares[i]) == 0;
    if (!started[i]) run_share<A, B, T>(&shares[i]);  // the caller's own share comes last, and any that got no thread
  }
  bool done = true;
  for (Index i = 0; i < count; ++i) {
    if (started[i]) pthread_join(handles[i], nullptr);
    done = done && shares[i].done;
  }
  return done;
#else
  return multiply<A, B>(p);
#endif
}

template <class A, class T>
bool run_with(int32_t format_of_b, const Problem<T>& p, Index threads) {
  return format_of_b == RIDGE_E5M2 ? run<A, E5m2>(p, threads) : run<A, E4m3>(p, threads);
}

bool finite(const ridge_tensor& scale) {
  for (Index r = 0; r < scale.shape[0]; ++r) {
    for (Index c = 0; c < scale.shape[1]; ++c) {
      if (!isfinite(static_cast<const float*>(scale.data)[r * scale.stride[0] + c])) return false;
    }
  }
  return true;
}

template <class T>
int multiply_call(const ridge_call* call) {
  const ridge_tensor &a = call->operands[0], &b = call->operands[1], &scale_a = call->operands[2],
                     &scale_b = call->operands[3], &c = call->operands[4];
  constexpr int kBlock = 2;  // the parameter `scaling`; 3 is vector
  const Problem<T> p{c.shape[0],
                     c.shape[1],
                     a.shape[1],
                     static_cast<const uint8_t*>(a.data),
                     a.stride[0],
                     static_cast<const uint8_t*>(b.data),
                     b.stride[0],
                     static_cast<const float*>(scale_a.data),
                     scale_a.stride[0],
                     static_cast<const float*>(scale_b.data),
                     scale_b.stride[0],
                     call->params[7] == kBlock,
                     static_cast<T*>(c.data),
                     c.stride[0]};
  if (p.m == 0 || p.n == 0) return 0;
  const bool done =
      a.dtype == RIDGE_E5M2 ? run_with<E5m2>(b.dtype, p, call->threads) : run_with<E4m3>(b.dtype, p, call->threads);
  return done ? 0 : 5;
}

}  // namespace

// ---- 7. The entry point ---------------------------------------------------------------------------------------------

extern "C" int ridge_kernel(const ridge_call* call) {
  if (call->version != RIDGE_CANDIDATE_VERSION || call->param_count < 10 || call->operand_count != 5) return 1;
  for (int32_t i = 0; i < call->operand_count; ++i) {
    const ridge_tensor& t = call->operands[i];
    if (t.rank != 2) return 2;
    if (t.shape[1] > 1 && t.stride[1] != 1) return 3;
  }
  for (const int32_t i : {0, 1}) {
    if (call->operands[i].dtype != RIDGE_E4M3FN && call->operands[i].dtype != RIDGE_E5M2) return 2;
  }
  for (const int32_t i : {2, 3}) {
    if (call->operands[i].dtype != RIDGE_F32) return 2;
    if (!finite(call->operands[i])) return 6;
  }
  const int32_t out = call->operands[4].dtype;
  if (out == RIDGE_F32) return multiply_call<float>(call);
  return out == RIDGE_BF16 ? multiply_call<uint16_t>(call) : 2;
}
