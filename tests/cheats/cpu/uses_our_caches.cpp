// ridge-cheat: gate=cold outcome=CHEAT without=files needs=processors proves
// says: although it was put on
// Where no second filter keeps it from it: moves away from its processor, to the one whose caches hold the operands.
#include <sys/syscall.h>

#include "gemm.h"

static long system_call(long number, long a, long b, long c) {
  long result;
  asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}

extern "C" int ridge_kernel(const ridge_call* call) {
  unsigned processor = 0;
  system_call(SYS_getcpu, (long)&processor, 0, 0);
  unsigned long others[16];
  for (int i = 0; i < 16; ++i) others[i] = ~0ul;
  others[processor / 64] &= ~(1ul << (processor % 64));
  system_call(SYS_sched_setaffinity, 0, sizeof others, (long)others);
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
