// ridge-honest:
// Sums in fp64: more exact than asked for.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < g.k; ++p) sum += (double)g.a[i * g.lda + p] * (double)g.b[p * g.ldb + j];
      g.c[i * g.ldc + j] = (float)sum;
    }
  }
  return 0;
}
