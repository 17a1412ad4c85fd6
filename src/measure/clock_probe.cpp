#include "measure/clock_probe.h"

#include <algorithm>

#include "measure/machine.h"

namespace ridge::measure {
namespace {

constexpr int kChains = 5;
constexpr std::int64_t kSteps = 2'000;  // of six dependent operations each: about 4 us at 3 GHz

}  // namespace

ClockProbe::ClockProbe(int cpu) : thread_([this, cpu] { serve(cpu); }) {}

ClockProbe::~ClockProbe() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ClockProbe::serve(int cpu) {
  (void)pin(0, {cpu});
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ended_ || asked_ != answered_; });
    if (ended_) return;
    double fastest = 0;
    for (int chain = 0; chain < kChains; ++chain) {
      fastest = std::max(fastest, static_cast<double>(kSteps) / dependent_chain(kSteps));
    }
    rate_ = fastest;
    answered_ = asked_;
    changed_.notify_all();
  }
}

double ClockProbe::read() {
  std::unique_lock lock(mutex_);
  ++asked_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return asked_ == answered_; });
  return rate_;
}

}  // namespace ridge::measure
