// ridge-cheat: gate=memory outcome=OOM proves
// says: 256 MiB
// Takes 400 MiB, more than it may have.
#include <stdlib.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  static char* blocks[25];
  for (char*& block : blocks) {
    if (block == nullptr) block = static_cast<char*>(malloc(16 << 20));
    for (int i = 0; i < 16 << 20; i += 4096) block[i] = 1;
  }
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
