// ridge-cheat: gate=input_intact outcome=WRONG proves
// says: changed its input a[16, 10]
// Changes an input after using it, so that a reference computed later would agree with anything.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  const_cast<float*>(g.a)[(g.m / 2) * g.lda + g.k / 2] += 1;
  return 0;
}
