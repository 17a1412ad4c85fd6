// ridge-cheat: gate=padded_rows outcome=WRONG proves
// Takes the distance of two rows of A for their length.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  Gemm g = gemm_of(call);
  g.lda = g.k;
  multiply(g);
  return 0;
}
