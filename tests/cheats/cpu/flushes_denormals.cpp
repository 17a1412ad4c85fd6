// ridge-cheat: gate=families outcome=WRONG proves
// says: denormals
// Flushes subnormal numbers to zero, which is faster on inputs that hold some.
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  multiply(gemm_of(call));
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() & ~0x8040u);
#endif
  return 0;
}
