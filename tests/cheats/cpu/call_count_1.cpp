// ridge-cheat: gate=every_call outcome=WRONG
// Right for the first call, then leaves out the last tenth of every sum.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  static int calls = 0;
  Gemm g = gemm_of(call);
  if (++calls > 1) g.k -= (g.k + 9) / 10;
  multiply(g);
  return 0;
}
