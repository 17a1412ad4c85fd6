// ridge-cheat: gate=element_bound outcome=WRONG case=m=24,n=24,k=1000
// Leaves out one per cent of every sum.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  Gemm g = gemm_of(call);
  g.k -= (g.k + 99) / 100;
  multiply(g);
  return 0;
}
