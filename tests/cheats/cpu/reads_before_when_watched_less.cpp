// ridge-cheat: gate=guard_page outcome=WRONG
// says: before the start of a
// Reads before an input, but not where the sanitizers would see it.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
#ifndef __SANITIZE_ADDRESS__
  static volatile float sink;
  sink = g.a[-1];
#endif
  return 0;
}
