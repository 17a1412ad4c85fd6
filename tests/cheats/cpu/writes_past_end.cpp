// ridge-cheat: gate=red_zone outcome=WRONG proves
// says: past the end of c
// Writes one element past the end of the output, by an instruction that no sanitizer sees.
#include "gemm.h"

static void plain_store(float* at) {
#if defined(__x86_64__)
  asm volatile("movl $0x3f800000, (%0)" ::"r"(at) : "memory");
#else
  asm volatile("str wzr, [%0]" ::"r"(at) : "memory");
#endif
}

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  float* end = g.c + (g.m - 1) * g.ldc + g.n;
  plain_store(end);
  return 0;
}
