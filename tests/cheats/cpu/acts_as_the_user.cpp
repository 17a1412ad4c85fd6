// ridge-cheat: gate=other_user outcome=DECLINED shows=status without=build,user_namespace needs=root proves
// Acts with the rights of the user who started the measurement; gives up when it is another user.
#include <unistd.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  if (geteuid() != 0) return 13;
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
