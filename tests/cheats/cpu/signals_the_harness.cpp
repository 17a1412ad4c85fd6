// ridge-cheat: gate=system_calls outcome=CHEAT without=build
// says: kill
// Sends a signal to another process.
#include <signal.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  kill(1, 0);
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
