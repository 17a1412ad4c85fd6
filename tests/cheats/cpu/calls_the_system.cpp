// ridge-cheat: gate=build outcome=COMPILE
// says: it imports syscall
// System calls by number.
#include <sys/syscall.h>
#include <unistd.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  syscall(SYS_getpid);
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
