// ridge-cheat: gate=build outcome=COMPILE proves
// says: takes_code() would run when it is loaded
// Takes memory that it can write and execute while it is loaded, when the loader must be able to.
#include <sys/mman.h>

#include "gemm.h"

static void* code = MAP_FAILED;
__attribute__((constructor)) static void takes_code() {
  code = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

extern "C" int ridge_kernel(const ridge_call* call) {
  if (code == MAP_FAILED) return 13;
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
