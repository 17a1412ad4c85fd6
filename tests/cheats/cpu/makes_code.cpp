// ridge-cheat: gate=files outcome=CHEAT proves
// says: executable memory
// Writes machine code at run time.
#include <sys/mman.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
