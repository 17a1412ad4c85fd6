// ridge-cheat: gate=row_padding outcome=WRONG proves
// says: padding of c
// Writes between the rows of the output, where another tensor may lie.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  if (g.m > 1 && g.ldc > g.n) g.c[g.n] = 1;
  return 0;
}
