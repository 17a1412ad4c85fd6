// ridge-cheat: gate=build outcome=COMPILE
// says: would run when it is loaded
// The function that the loader has called since before there were constructors.
#include "gemm.h"

static volatile int seen = 0;
extern "C" void _init() { seen = 1; }

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
