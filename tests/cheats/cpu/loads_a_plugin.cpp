// ridge-cheat: gate=build outcome=COMPILE flags=-fplugin=evil.so
// says: -fplugin=evil.so
// Asks the compiler to load a library of its own.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
