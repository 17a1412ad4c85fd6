// ridge-cheat: gate=hang outcome=HANG without=build
// says: 0.5 s
// Never ends loading.
#include "gemm.h"

__attribute__((constructor)) static void forever() {
  for (volatile int i = 0;;) i = i + 1;
}

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
