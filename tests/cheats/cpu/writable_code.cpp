// ridge-cheat: gate=build outcome=COMPILE
// says: both writable and executable
// A section that can be written and executed.
#include "gemm.h"

asm(".section .patch,\"awx\",@progbits\n.fill 4096,1,0x90\n.previous");

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
