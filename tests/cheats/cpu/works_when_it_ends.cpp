// ridge-cheat: gate=build outcome=COMPILE
// says: when it is unloaded
// A destructor, which would run behind the last call.
#include "gemm.h"

static volatile int ended = 0;
__attribute__((destructor)) static void works() { ended = 1; }

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
