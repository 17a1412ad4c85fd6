// ridge-cheat: gate=hang outcome=HANG proves
// says: 0.5 s
// Takes longer than a call may.
#include <unistd.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  static int calls = 0;
  if (++calls == 1) usleep(1500000);
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
