// ridge-cheat: gate=crash outcome=CRASH
// Calls itself without end.
#include "gemm.h"

static volatile int sink;
__attribute__((noinline)) static int deeper(volatile int depth) {
  volatile char frame[4096];
  frame[depth % 4096] = 1;
  return deeper(depth + 1) + frame[depth % 4096];
}

extern "C" int ridge_kernel(const ridge_call* call) {
  sink = deeper(1);
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
