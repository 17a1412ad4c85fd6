// ridge-cheat: gate=build outcome=COMPILE
// says: kernel.cpp
// Is not C++.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  int x = nonsense;
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
