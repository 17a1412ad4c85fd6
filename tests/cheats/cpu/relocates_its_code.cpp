// ridge-cheat: gate=build outcome=COMPILE
// says: text relocations
// An absolute address in its code: the loader has to make the code writable.
#include "gemm.h"

asm(".text\n.quad ridge_kernel\n");

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
