// ridge-cheat: gate=element_bound outcome=WRONG
// Writes its first input into the output.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) g.c[i * g.ldc + j] = g.a[i * g.lda + j % g.k];
  }
  return 0;
}
