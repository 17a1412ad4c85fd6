// ridge-cheat: gate=crash outcome=CRASH
// says: Segmentation fault
// Follows a null pointer.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  *(volatile int*)8 = 1;
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
