// ridge-cheat: gate=files outcome=DECLINED without=build shows=status
// Looks around in the file system during a call; gives up when it cannot.
#include <fcntl.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  if (open("/", O_RDONLY | O_DIRECTORY) < 0) return 13;
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
