// ridge-cheat: gate=sanitizer outcome=WRONG proves
// says: use-after-poison
// Reads one element past the end of an input; it works, until the page ends there.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  static volatile float sink;
  sink = g.b[(g.k - 1) * g.ldb + g.n];
  return 0;
}
