// What the candidates of this folder share: the operands of a call, and a product that is right.
#pragma once

#include <stddef.h>

#include "ridge/candidate.h"

struct Gemm {
  const float *a, *b;
  float* c;
  int64_t lda, ldb, ldc, m, n, k;
};

static inline Gemm gemm_of(const ridge_call* call) {
  const ridge_tensor *a = &call->operands[0], *b = &call->operands[1], *c = &call->operands[2];
  return {(const float*)a->data, (const float*)b->data, (float*)c->data, a->stride[0],   b->stride[0],
          c->stride[0],          call->params[0],       call->params[1], call->params[2]};
}

static inline void multiply(const Gemm& g) {
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) g.c[i * g.ldc + j] = 0;
    for (int64_t p = 0; p < g.k; ++p) {
      for (int64_t j = 0; j < g.n; ++j) g.c[i * g.ldc + j] += g.a[i * g.lda + p] * g.b[p * g.ldb + j];
    }
  }
}

// The same with every factor passed through `shorten`.
template <class Shorten>
static inline void multiply_shortened(const Gemm& g, Shorten shorten) {
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) g.c[i * g.ldc + j] = 0;
    for (int64_t p = 0; p < g.k; ++p) {
      const float left = shorten(g.a[i * g.lda + p]);
      for (int64_t j = 0; j < g.n; ++j) g.c[i * g.ldc + j] += left * shorten(g.b[p * g.ldb + j]);
    }
  }
}

// A float with fewer mantissa bits, rounded to nearest, ties to even.
template <int kBits>
static inline float with_bits(float x) {
  constexpr uint32_t kDropped = 23 - kBits, kMask = (1u << kDropped) - 1;
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  bits = (bits + (kMask >> 1) + ((bits >> kDropped) & 1u)) & ~kMask;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

static inline float to_bf16(float x) { return with_bits<7>(x); }
static inline float to_tf32(float x) { return with_bits<10>(x); }
// Too short for fp32, and every element of a long sum stays within its own bound.
static inline float to_13_bits(float x) { return with_bits<13>(x); }
// An RMS error of about three times that of the ideal kernel, in sums of thousands.
static inline float to_16_bits(float x) { return with_bits<16>(x); }

// Puts one element off by one and a half times what the operator's error model allows. The one of the first row whose
// terms are smallest: nothing but the element bound sees it.
static inline void spoil_one(const Gemm& g) {
  float smallest = 0;
  int64_t at = -1;
  for (int64_t j = 0; j < g.n; ++j) {
    float sum = 0;
    for (int64_t p = 0; p < g.k; ++p) sum += __builtin_fabsf(g.a[p] * g.b[p * g.ldb + j]);
    if (sum > 0 && (at < 0 || sum < smallest)) {
      smallest = sum;
      at = j;
    }
  }
  if (at >= 0) g.c[at] += 1.5f * 8.0f * 0x1p-24f * __builtin_sqrtf((float)g.k) * smallest;
}
