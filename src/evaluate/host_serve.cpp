#include "evaluate/host_serve.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>

namespace ridge::evaluate {
namespace {

HostControl* fault_control = nullptr;

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint32_t wait_for_request(HostControl& control, std::uint32_t last) {
  std::atomic_ref<std::uint32_t> request(control.request);
  while (true) {
    const std::uint32_t current = request.load(std::memory_order_acquire);
    if (current != last) return current;
    ::syscall(SYS_futex, &control.request, FUTEX_WAIT, last, nullptr, nullptr, 0);
  }
}

void answer(HostControl& control, std::uint32_t number) {
  std::atomic_ref<std::uint32_t>(control.reply).store(number, std::memory_order_release);
  ::syscall(SYS_futex, &control.reply, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// A mapping as large as a small workspace: refused exactly when the address space limit is the reason of the fault.
bool memory_exhausted() {
  constexpr std::size_t kProbe = 32u << 20;
  void* probe = ::mmap(nullptr, kProbe, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (probe == MAP_FAILED) return true;
  ::munmap(probe, kProbe);
  return false;
}

// Without the C library: a kernel can change the table through which it is called, not this code.
[[noreturn]] void end_process(int status) {
  while (true) {
#if defined(__x86_64__)
    long result = 0;
    asm volatile("syscall" : "=a"(result) : "a"(SYS_exit_group), "D"(status) : "rcx", "r11", "memory");
#else
    ::_exit(status);
#endif
  }
}

void on_fault(int signal, siginfo_t* info, void*) {
  if (fault_control != nullptr) {
    fault_control->signal = signal;
    fault_control->fault_address = reinterpret_cast<std::uint64_t>(info->si_addr);
    fault_control->fault_offset =
        static_cast<std::int64_t>(fault_control->fault_address - reinterpret_cast<std::uint64_t>(fault_control));
    fault_control->system_call = signal == SIGSYS ? info->si_syscall : 0;
    if (signal != SIGSYS) fault_control->out_of_memory = memory_exhausted() ? 1 : 0;
  }
  end_process(128 + signal);
}

void fill_call(const HostControl& control, unsigned char* region, HostCall& out) {
  for (int i = 0; i < control.operand_count && i < kMaxOperands; ++i) {
    const HostOperand& from = control.operands[i];
    ridge_tensor& to = out.operands[i];
    to.data = region + from.offset;
    to.dtype = from.dtype;
    to.rank = from.rank;
    std::memcpy(to.shape, from.shape, sizeof to.shape);
    std::memcpy(to.stride, from.stride, sizeof to.stride);
  }
  std::memcpy(out.params, control.params, sizeof out.params);
  static_assert(sizeof out.scalars == sizeof control.scalars);
  std::memcpy(out.scalars, control.scalars, sizeof out.scalars);
  out.call = {RIDGE_CANDIDATE_VERSION,
              control.threads,
              control.operand_count,
              control.param_count,
              out.operands,
              out.params,
              out.scalars,
              control.scalar_count,
              0};
}

std::int32_t timed_call(HostControl& control, unsigned char* region, const HostHandlers& handlers) {
  // On the stack and filled anew each time: what a kernel did to the last call cannot reach this one.
  HostCall call;
  fill_call(control, region, call);
  const bool empty = control.command == HostCommand::kEmpty;
  std::int32_t status = 0;
  const std::uint64_t start = now_ns();
  if (!empty) status = handlers.call(call.call);
  const std::uint64_t end = now_ns();
  control.start_ns = start;
  control.end_ns = end;
  if (status != 0) control.out_of_memory = memory_exhausted() ? 1 : 0;
  return status;
}

std::int32_t fence(const HostControl& control, unsigned char* region, std::size_t bytes) {
  if (::mprotect(region + kControlBytes, bytes - kControlBytes, PROT_READ | PROT_WRITE) != 0) return 1;
  for (int i = 0; i + 1 < control.param_count && i + 1 < kMaxParams; i += 2) {
    const auto first = static_cast<std::size_t>(control.params[i]),
               size = static_cast<std::size_t>(control.params[i + 1]);
    if (first < kControlBytes || size > bytes || first > bytes - size) return 2;
    if (::mprotect(region + first, size, PROT_NONE) != 0) return 3;
  }
  return 0;
}

}  // namespace

void install_fault_handlers(HostControl& control) {
  static unsigned char stack[65536];
  fault_control = &control;
  const stack_t alternate{stack, 0, sizeof stack};
  ::sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS}) ::sigaction(signal, &action, nullptr);
}

void serve(void* region, std::size_t region_bytes, const HostHandlers& handlers) {
  HostControl& control = *static_cast<HostControl*>(region);
  std::uint32_t number = 0;
  while (true) {
    number = wait_for_request(control, number);
    switch (control.command) {
      case HostCommand::kSandbox: control.status = handlers.sandbox(control); break;
      case HostCommand::kLoad: control.status = handlers.load(control); break;
      case HostCommand::kFence:
        control.status = fence(control, static_cast<unsigned char*>(region), region_bytes);
        break;
      case HostCommand::kCall:
      case HostCommand::kEmpty:
        control.status = timed_call(control, static_cast<unsigned char*>(region), handlers);
        break;
    }
    answer(control, number);
  }
}

}  // namespace ridge::evaluate
