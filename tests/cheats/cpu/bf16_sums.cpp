// ridge-cheat: gate=element_bound outcome=WRONG case=m=24,n=24,k=256
// Sums kept in bf16.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < g.k; ++p) sum = to_bf16(sum + g.a[i * g.lda + p] * g.b[p * g.ldb + j]);
      g.c[i * g.ldc + j] = sum;
    }
  }
  return 0;
}
