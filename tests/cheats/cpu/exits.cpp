// ridge-cheat: gate=status outcome=CRASH without=build
// says: exit code 0
// Ends its process with code zero, which some harnesses take for success.
#include <unistd.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  _exit(0);
}
