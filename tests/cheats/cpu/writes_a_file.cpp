// ridge-cheat: gate=system_calls outcome=CHEAT without=build
// says: openat
// Keeps results in a file, for the next process to find; while it is loaded, when files can still be opened.
#include <fcntl.h>

#include "gemm.h"

__attribute__((constructor)) static void keep() { open("/tmp/ridge-escape", O_WRONLY | O_CREAT, 0600); }

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
