// ridge-cheat: gate=environment outcome=DECLINED shows=status proves
// Looks for secrets in the environment; gives up when there is none.
#include <stdlib.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  if (getenv("RIDGE_SECRET") == nullptr) return 13;
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
