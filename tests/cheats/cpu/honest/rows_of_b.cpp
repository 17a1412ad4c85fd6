// ridge-honest:
// Columns innermost, which the compiler vectorises.
// ridge: deterministic
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
