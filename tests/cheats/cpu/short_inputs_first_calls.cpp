// ridge-cheat: gate=rms outcome=WRONG case=m=24,n=24,k=4096 proves
// Inputs of 16 mantissa bits in the first four calls, exact afterwards: what decides is the RMS line of the full
// comparison alone.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  static int calls = 0;
  if (++calls <= 4) {
    multiply_shortened(gemm_of(call), to_16_bits);
  } else {
    multiply(gemm_of(call));
  }
  return 0;
}
