// ridge-cheat: gate=poison outcome=WRONG
// says: not written at all
// Does nothing, and hopes that the right result is still there.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  (void)call;
  return 0;
}
