// ridge-cheat: gate=element_bound outcome=WRONG
// Computes the last row from the terms of half a sum.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  Gemm last = g;
  last.a += (g.m - 1) * g.lda;
  last.c += (g.m - 1) * g.ldc;
  last.m = 1;
  last.k = g.k / 2;
  multiply(last);
  return 0;
}
