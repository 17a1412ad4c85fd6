// ridge-honest:
// Adds in another order each time and does not claim anything else: legal, and reported.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  static int calls = 0;
  const bool backward = ++calls % 2 == 0;
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < g.k; ++p) {
        const int64_t q = backward ? g.k - 1 - p : p;
        sum += g.a[i * g.lda + q] * g.b[q * g.ldb + j];
      }
      g.c[i * g.ldc + j] = sum;
    }
  }
  return 0;
}
