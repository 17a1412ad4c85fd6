// ridge-cheat: gate=user_namespace outcome=DECLINED shows=status without=build,other_user needs=root proves
// Is root among our processes; gives up when that means nothing there.
#include <unistd.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  if (geteuid() != 0) return 13;
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
