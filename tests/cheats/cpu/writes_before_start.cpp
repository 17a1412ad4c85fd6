// ridge-cheat: gate=red_zone outcome=WRONG
// says: before the start of c
// Writes the element before the first of the output.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  g.c[-1] = 1;
  return 0;
}
