// ridge-cheat: gate=sanitizer outcome=WRONG
// says: signed integer overflow
// Index arithmetic that overflows a signed integer: undefined, and wrong on large shapes.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  volatile int rows = 1 << 20;
  static volatile int sink;
  sink = rows * 4096;
  return 0;
}
