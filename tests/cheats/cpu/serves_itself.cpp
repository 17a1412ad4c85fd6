// ridge-cheat: gate=clock outcome=CHEAT without=build,guard_page
// Never returns: finds the control block in the shared memory, waits for requests itself and stamps a quarter of the
// time.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

static void work(const Gemm& g) {
  multiply(g);
  volatile double x = 1;
  for (int i = 0; i < 3000000; ++i) x = x * 1.0000001;
}

// Operands move between calls.
static Gemm requested(const Control* control, Gemm g) {
  const char* const region = (const char*)control;
  g.a = (const float*)(region + control->operands[0].offset);
  g.b = (const float*)(region + control->operands[1].offset);
  g.c = (float*)(region + control->operands[2].offset);
  return g;
}

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  Control* const control = (Control*)(((uintptr_t)g.a & ~(uintptr_t)4095) - 20480);
  uint64_t begin = now();
  while (true) {
    const uint32_t number = __atomic_load_n(&control->request, __ATOMIC_ACQUIRE);
    work(requested(control, g));
    control->end_ns = now();
    control->start_ns = control->end_ns - (control->end_ns - begin) / 100;
    control->status = 0;
    __atomic_store_n(&control->reply, number, __ATOMIC_RELEASE);
    syscall(SYS_futex, &control->reply, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    while (__atomic_load_n(&control->request, __ATOMIC_ACQUIRE) == number) {
      syscall(SYS_futex, &control->request, FUTEX_WAIT, number, nullptr, nullptr, 0);
    }
    begin = now();
  }
}
