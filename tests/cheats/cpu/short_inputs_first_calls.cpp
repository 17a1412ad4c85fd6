// ridge-cheat: gate=rms outcome=WRONG case=m=24,n=24,k=4096 proves
// Inputs of 16 mantissa bits in the first four calls, exact afterwards: what decides is the RMS line of the full
// comparison alone.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  static int calls = 0;
  const Gemm g = gemm_of(call);
  if (++calls <= 4 && g.k > 1000) {
    multiply_shortened(g, to_16_bits);
  } else {
    multiply(g);
  }
  return 0;
}
