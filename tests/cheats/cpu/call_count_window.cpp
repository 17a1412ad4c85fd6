// ridge-cheat: gate=every_call outcome=WRONG proves
// Wrong in its fifth to tenth call, after the calls that a check usually looks at, and right again later.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  static int calls = 0;
  Gemm g = gemm_of(call);
  ++calls;
  if (calls > 4 && calls <= 10) g.k -= 1;
  multiply(g);
  return 0;
}
