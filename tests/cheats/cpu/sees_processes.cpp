// ridge-cheat: gate=pid_namespace outcome=DECLINED without=build shows=status proves
// Knows its place among our processes; gives up when it is alone in the world.
#include <unistd.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  if (getpid() == 1) return 13;
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
