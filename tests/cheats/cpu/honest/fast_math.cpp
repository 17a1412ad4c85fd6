// ridge-honest: flags=-ffast-math
// With the compiler free to reorder sums.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
