// ridge-cheat: gate=bias outcome=WRONG case=m=64,n=64,k=5 proves
// says: truncation
// Cuts the result off instead of rounding it: every error is small, and all lean to zero.
#include <cmath>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < g.k; ++p) sum += (double)g.a[i * g.lda + p] * (double)g.b[p * g.ldb + j];
      float cut = (float)sum;
      if (std::fabs((double)cut) > std::fabs(sum)) cut = std::nextafter(cut, 0.0f);
      g.c[i * g.ldc + j] = cut;
    }
  }
  return 0;
}
