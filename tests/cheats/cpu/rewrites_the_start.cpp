// ridge-cheat: gate=clock outcome=CHEAT
// Looks on the stack of its caller for the stamp that was taken before the call, and moves it.
#include <time.h>

#include "gemm.h"

__attribute__((noinline)) static void move_stamps() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  const uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
  volatile uint64_t* const stack = (volatile uint64_t*)__builtin_frame_address(0);
  for (int i = 0; i < 256; ++i) {
    if (stack[i] <= now && now - stack[i] < 100000000u) stack[i] = now - 1000;
  }
}

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  volatile double x = 1;
  for (int i = 0; i < 3000000; ++i) x = x * 1.0000001;
  move_stamps();
  return 0;
}
