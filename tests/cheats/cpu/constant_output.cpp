// ridge-cheat: gate=element_bound outcome=WRONG
// Writes one constant everywhere.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) g.c[i * g.ldc + j] = 0.25f;
  }
  return 0;
}
