// ridge-honest: case=m=24,n=24,k=4096
// Sums of four thousand terms in one straight chain: the least exact that is still honest fp32.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < g.k; ++p) sum = __builtin_fmaf(g.a[i * g.lda + p], g.b[p * g.ldb + j], sum);
      g.c[i * g.ldc + j] = sum;
    }
  }
  return 0;
}
