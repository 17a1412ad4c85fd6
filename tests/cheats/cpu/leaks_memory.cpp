// ridge-cheat: gate=memory outcome=OOM
// Forgets 16 MiB in every call.
#include <stdlib.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  char* block = static_cast<char*>(malloc(16 << 20));
  for (volatile int i = 0; i < 16 << 20; i = i + 4096) block[i] = 1;
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
