// ridge-cheat: gate=build outcome=COMPILE
// says: ridge_kernel is an indirect function
// The kernel itself is an indirect function: looking it up runs code.
#include "gemm.h"

static int kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
extern "C" void* chooses() { return (void*)kernel; }
extern "C" int ridge_kernel(const ridge_call* call) __attribute__((ifunc("chooses")));
