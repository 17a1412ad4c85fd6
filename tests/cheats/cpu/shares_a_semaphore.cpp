// ridge-cheat: gate=ipc_namespace outcome=DECLINED shows=status without=build,system_calls needs=semaphore proves
// Passes results on through a semaphore of this machine; gives up when there is none of that key.
#include <sys/sem.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  if (semget(0x52494447, 1, 0) < 0) return 13;
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
