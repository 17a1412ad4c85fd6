// ridge-honest:
// Blocks of k, so that a panel of B stays in the cache.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) g.c[i * g.ldc + j] = 0;
  }
  constexpr int64_t kBlock = 16;
  for (int64_t first = 0; first < g.k; first += kBlock) {
    Gemm part = g;
    part.k = g.k - first < kBlock ? g.k - first : kBlock;
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t p = first; p < first + part.k; ++p) {
        for (int64_t j = 0; j < g.n; ++j) g.c[i * g.ldc + j] += g.a[i * g.lda + p] * g.b[p * g.ldb + j];
      }
    }
  }
  return 0;
}
