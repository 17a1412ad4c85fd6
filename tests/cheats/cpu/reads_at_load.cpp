// ridge-cheat: gate=mount_namespace outcome=DECLINED without=build shows=status proves
// Reads a file of the machine while it is loaded, when the loader must be able to read; gives up when it cannot.
#include <fcntl.h>

#include "gemm.h"

static bool seen = false;
__attribute__((constructor)) static void look() { seen = open("/etc/passwd", O_RDONLY) >= 0; }

extern "C" int ridge_kernel(const ridge_call* call) {
  if (!seen) return 13;
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
