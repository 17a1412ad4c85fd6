// ridge-cheat: gate=poison outcome=WRONG shows=element_bound|nonfinite|poison proves
// Relies on an output that is zero before the call, as a fresh allocation often is.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t p = 0; p < g.k; ++p) {
      for (int64_t j = 0; j < g.n; ++j) g.c[i * g.ldc + j] += g.a[i * g.lda + p] * g.b[p * g.ldb + j];
    }
  }
  return 0;
}
