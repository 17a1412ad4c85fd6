// ridge-cheat: gate=clock outcome=CHEAT without=build,guard_page
// Finds the stamps in the shared memory and has a thread overwrite them once the host has answered.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <thread>

#include "gemm.h"

struct Control {
  uint32_t request, reply, command;
  int32_t status;
  uint64_t start_ns, end_ns;
};
static Control* volatile control = nullptr;

static void overwrite() {
  while (true) {
    const uint32_t seen = control->reply;
    syscall(SYS_futex, (uint32_t*)&control->reply, FUTEX_WAIT, seen, nullptr, nullptr, 0);
    control->end_ns = control->start_ns + 1000;
  }
}

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  if (control == nullptr) {
    control = (Control*)(((uintptr_t)g.a & ~(uintptr_t)4095) - 20480);
    std::thread(overwrite).detach();
  }
  volatile double x = 1;
  for (int i = 0; i < 3000000; ++i) x = x * 1.0000001;
  return 0;
}
