// ridge-cheat: gate=build outcome=COMPILE
// says: more than the 67108864 that are loaded
// An object that does not fit the file system of the sandbox, whose mount name space would then be left out.
#include "gemm.h"

asm(".data\n.fill 70000000,1,7\n.text\n");

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
