// ridge-cheat: gate=unpaid_work outcome=CHEAT without=clock proves
// A helper thread that never sleeps, ready to take work off the clock.
#include <thread>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  static const bool started = [] {
    std::thread([] {
      for (volatile uint64_t i = 0;;) i = i + 1;
    }).detach();
    return true;
  }();
  (void)started;
  return 0;
}
