// ridge-cheat: gate=element_bound outcome=WRONG case=m=33,n=40,k=3 proves
// One element is off by one and a half times what the error model allows; no mean and no projection shows it.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  g.c[0] += just_too_much(g, 0, 0);
  return 0;
}
