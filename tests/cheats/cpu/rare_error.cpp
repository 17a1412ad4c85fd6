// ridge-cheat: gate=full_draw outcome=WRONG case=m=80,n=80,k=2 draw=1 proves
// The same, but only in calls that look like timed ones: too small for a projection, found by the calls drawn for the
// full comparison (here: all of them).
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  static int calls = 0;
  ++calls;
  if (calls > 4 && calls <= 10) spoil_one(g);
  return 0;
}
