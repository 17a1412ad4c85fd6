// ridge-cheat: gate=families outcome=WRONG shows=families|every_call|element_bound|rms
// Fixed point with 26 bits behind the point: right for inputs around one, wrong for small ones.
#include "gemm.h"

static double fixed(float x) { return __builtin_rint((double)x * 0x1p26) * 0x1p-26; }

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < g.k; ++p) sum += fixed(g.a[i * g.lda + p]) * fixed(g.b[p * g.ldb + j]);
      g.c[i * g.ldc + j] = (float)sum;
    }
  }
  return 0;
}
