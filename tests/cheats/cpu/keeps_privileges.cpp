// ridge-cheat: gate=privileges outcome=DECLINED shows=status without=build,system_calls proves
// Asks whether a program it starts could gain privileges; gives up when not.
#include <sys/prctl.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return 13;
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
