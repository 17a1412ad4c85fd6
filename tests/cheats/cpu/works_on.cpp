// ridge-cheat: gate=unpaid_work outcome=CHEAT shows=unpaid_work|clock
// says: processor time
// The result is right and in time; a thread goes on computing for the next call.
#include <thread>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  std::thread([] {
    for (volatile int i = 0; i < 50000000;) i = i + 1;
  }).detach();
  return 0;
}
