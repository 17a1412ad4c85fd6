// ridge-cheat: gate=poison outcome=WRONG
// says: c[0, 5]
// Leaves out one element in the middle of the output.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  const int64_t at = g.n > 5 ? 5 : 0;
  const float keep = g.c[at];
  multiply(g);
  g.c[at] = keep;
  return 0;
}
