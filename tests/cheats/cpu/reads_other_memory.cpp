// ridge-cheat: gate=system_calls outcome=CHEAT without=build
// says: process_vm_readv
// Reads the memory of its parent, where the reference is.
#include <sys/uio.h>
#include <unistd.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  char byte;
  iovec local{&byte, 1}, remote{(void*)0x1000, 1};
  process_vm_readv(2, &local, 1, &remote, 1, 0);
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
