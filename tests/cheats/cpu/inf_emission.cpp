// ridge-cheat: gate=nonfinite outcome=WRONG
// says: c[0, 7] = inf
// One infinity where the result is a number.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  g.c[7 % g.n] = __builtin_inff();
  return 0;
}
