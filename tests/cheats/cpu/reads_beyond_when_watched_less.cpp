// ridge-cheat: gate=guard_page outcome=WRONG proves
// says: past the end of b
// Reads beyond an input, but not where the sanitizers would see it.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
#ifndef __SANITIZE_ADDRESS__
  static volatile float sink;
  sink = g.b[(g.k - 1) * g.ldb + g.n + 15];
#endif
  return 0;
}
