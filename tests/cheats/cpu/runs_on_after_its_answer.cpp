// ridge-cheat: gate=clock outcome=CHEAT without=build,guard_page case=m=64,n=64,k=64
// says: its clock shows 0.000 ms
// A thread of its own serves the requests and goes on running when it has answered, until the harness has read its
// processor time: the account of a running thread moves at the kernel's ticks only. Its clock shows no time at all.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <thread>

#include "gemm.h"

struct Control {
  uint32_t request, reply, command;
  int32_t status;
  uint64_t start_ns, end_ns;
  uint32_t others[10];
  struct {
    uint64_t offset;
    int32_t dtype, rank;
    int64_t shape[RIDGE_MAX_RANK], stride[RIDGE_MAX_RANK];
  } operands[16];
};

static uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wait_beyond(Control* control, uint32_t number) {
  while (__atomic_load_n(&control->request, __ATOMIC_ACQUIRE) == number) {
    syscall(SYS_futex, &control->request, FUTEX_WAIT, number, nullptr, nullptr, 0);
  }
}

static Gemm requested(const Control* control) {
  const auto &a = control->operands[0], &b = control->operands[1], &c = control->operands[2];
  char* const region = (char*)control;
  return {(const float*)(region + a.offset),
          (const float*)(region + b.offset),
          (float*)(region + c.offset),
          a.stride[0],
          b.stride[0],
          c.stride[0],
          c.shape[0],
          c.shape[1],
          a.shape[1]};
}

static void serve(Control* control, uint32_t number) {
  while (true) {
    usleep(1);  // until the first thread waits where the harness looks for the host
    multiply(requested(control));
    volatile double x = 1;
    for (int i = 0; i < 60000; ++i) x = x * 1.0000001;
    control->start_ns = control->end_ns = now();
    control->status = 0;
    __atomic_store_n(&control->reply, number, __ATOMIC_RELEASE);
    syscall(SYS_futex, &control->reply, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    const uint64_t answered = now();
    while (now() - answered < 200000) {
    }
    wait_beyond(control, number);
    number = __atomic_load_n(&control->request, __ATOMIC_ACQUIRE);
  }
}

extern "C" int ridge_kernel(const ridge_call* call) {
  Control* const control = (Control*)(((uintptr_t)call->operands[0].data & ~(uintptr_t)4095) - 20480);
  uint32_t number = __atomic_load_n(&control->request, __ATOMIC_ACQUIRE);
  std::thread(serve, control, number).detach();
  // Sleeps where the harness looks for the host, and hands each wake-up on.
  while (true) {
    wait_beyond(control, number);
    number = __atomic_load_n(&control->request, __ATOMIC_ACQUIRE);
    syscall(SYS_futex, &control->request, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
}
