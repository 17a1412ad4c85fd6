// ridge-cheat: gate=files outcome=CHEAT
// says: a mapping moved over another one
// Moves a mapping to an address of its choice, where code of the host could be.
#include <sys/mman.h>
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
  void* const from = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  system_call(SYS_mremap, (long)from, 4096, 4096, 3, (long)from + 4096);
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
