// ridge-cheat: gate=every_call outcome=WRONG shows=every_call|families
// Right for the first 61 calls, then leaves out the last tenth of every sum.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  static int calls = 0;
  Gemm g = gemm_of(call);
  if (++calls > 61) g.k -= (g.k + 9) / 10;
  multiply(g);
  return 0;
}
