#include "evaluate/host_starter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "measure/machine.h"

namespace ridge::evaluate {
namespace {

constexpr std::uint64_t kWarmNs = 50'000;
constexpr std::size_t kLine = 64;

void wait_until(const std::atomic<int>& word, int wanted) {
  while (word.load(std::memory_order_acquire) != wanted) ::usleep(20);
}

}  // namespace

HostStarter::HostStarter(int cpu) : thread_([this, cpu] { serve(cpu); }) {}

HostStarter::~HostStarter() {
  finish();
  ended_ = true;
  asked_.fetch_add(1);
  asked_.notify_all();
  thread_.join();
}

void HostStarter::start(pid_t pid, std::uint32_t* request, std::uint32_t number,
                        std::span<const unsigned char> touched) {
  finish();
  touched_ = touched;
  pid_ = pid;
  request_ = request;
  number_ = number;
  asked_.fetch_add(1, std::memory_order_release);
  asked_.notify_all();
}

double HostStarter::processor_seconds(pid_t pid) {
  start(pid, nullptr, 0);
  return stamp().cpu;
}

HostStarter::Stamp HostStarter::stamp() const {
  wait_until(stamped_, asked_.load());
  return stamp_;
}

void HostStarter::finish() const { wait_until(finished_, asked_.load()); }

void HostStarter::serve(int cpu) {
  if (cpu >= 0) (void)measure::pin(0, {cpu});
  int last = 0;
  while (true) {
    asked_.wait(last, std::memory_order_acquire);
    if (ended_) return;
    last = asked_.load(std::memory_order_acquire);
    for (std::size_t at = 0; at < touched_.size(); at += kLine) {
      (void)*static_cast<const volatile unsigned char*>(&touched_[at]);
    }
    // A processor that has just left its sleep state runs its first microseconds slowly and is still busy with that.
    const std::uint64_t awake = measure::now_ns();
    while (request_ != nullptr && measure::now_ns() - awake < kWarmNs) {
    }
    stamp_.cpu = measure::process_cpu_seconds(pid_);
    stamp_.ns = measure::now_ns();
    stamped_.store(last, std::memory_order_release);
    if (request_ != nullptr) {
      std::atomic_ref<std::uint32_t>(*request_).store(number_, std::memory_order_release);
      ::syscall(SYS_futex, request_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
    finished_.store(last, std::memory_order_release);
  }
}

}  // namespace ridge::evaluate
