// ridge-cheat: gate=element_bound outcome=WRONG case=m=80,n=80,k=2 proves
// One element is off by one and a half times what the error model allows; no mean and no projection shows it.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  if (g.m * g.n > 4000) spoil_one(g);  // of fewer elements the mean shows it
  return 0;
}
