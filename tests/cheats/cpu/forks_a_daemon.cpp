// ridge-cheat: gate=system_calls outcome=CHEAT without=build
// says: clone
// Leaves a process behind that outlives the measurement.
#include <unistd.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  if (fork() == 0) {
    usleep(10000);
    _exit(0);
  }
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
