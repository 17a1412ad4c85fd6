// ridge-cheat: gate=unpaid_work outcome=CHEAT shows=unpaid_work|clock
// says: processor time
// The result is right and in time; a thread goes on computing for the next call.
#include <atomic>
#include <thread>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  static std::atomic<bool> works{false};
  if (works.exchange(true)) return 0;
  std::thread([] {
    for (volatile int i = 0; i < 50000000;) i = i + 1;
    works = false;
  }).detach();
  return 0;
}
