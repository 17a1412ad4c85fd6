// ridge-cheat: gate=prompt_copy outcome=WRONG without=build,guard_page
// says: after the call had returned
// Never returns: answers each request at once and computes while the harness waits for it to fall asleep.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gemm.h"

struct Control {
  uint32_t request, reply, command;
  int32_t status;
  uint64_t start_ns, end_ns;
};

static uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  Control* const control = (Control*)(((uintptr_t)g.a & ~(uintptr_t)4095) - 20480);
  multiply(g);
  while (true) {
    const uint32_t number = __atomic_load_n(&control->request, __ATOMIC_ACQUIRE);
    control->start_ns = control->end_ns = now();
    control->status = 0;
    __atomic_store_n(&control->reply, number, __ATOMIC_RELEASE);
    syscall(SYS_futex, &control->reply, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    usleep(500);
    multiply(g);
    while (__atomic_load_n(&control->request, __ATOMIC_ACQUIRE) == number) {
      syscall(SYS_futex, &control->request, FUTEX_WAIT, number, nullptr, nullptr, 0);
    }
  }
}
