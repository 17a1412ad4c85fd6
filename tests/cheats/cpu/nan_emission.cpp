// ridge-cheat: gate=nonfinite outcome=WRONG proves
// says: c[0, 7] = nan
// One NaN, which compares false with every limit.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  g.c[7 % g.n] = __builtin_nanf("");
  return 0;
}
