// ridge-honest:
// Sixteen partial sums along k, as a reduction in a vector register does.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      float lanes[16] = {};
      for (int64_t p = 0; p < g.k; ++p) lanes[p % 16] += g.a[i * g.lda + p] * g.b[p * g.ldb + j];
      float sum = 0;
      for (const float lane : lanes) sum += lane;
      g.c[i * g.ldc + j] = sum;
    }
  }
  return 0;
}
