// ridge-cheat: gate=files outcome=CHEAT
// says: a system call filter
// Loads a filter of its own during a call.
#include <sys/syscall.h>

#include "gemm.h"

static long system_call(long number, long a, long b, long c, long d, long e) {
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
               : "rcx", "r11", "memory");
  return result;
}

extern "C" int ridge_kernel(const ridge_call* call) {
  system_call(SYS_seccomp, 2, 0, 0, 0, 0);
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
