// ridge-cheat: gate=status outcome=DECLINED
// says: returned 7
// Says that it cannot do this call.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  return 7;
}
