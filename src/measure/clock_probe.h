// How fast the measured processor's clock runs, read by a thread of the harness that lives on that processor.
//
// User programs may read neither cycle nor frequency counters here (APERF and MPERF need ring 0, and a hypervisor hides
// them), so the clock is inferred: a chain of dependent integer operations takes a fixed number of cycles, and its time
// gives the clock in steps per second. An interrupt can only lengthen a chain; of several short ones the fastest
// counts. A candidate has no hand in it: the thread belongs to the harness, and it runs while the candidate sleeps.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace ridge::measure {

class ClockProbe {
 public:
  explicit ClockProbe(int cpu);
  ClockProbe(const ClockProbe&) = delete;
  ClockProbe& operator=(const ClockProbe&) = delete;
  ~ClockProbe();

  // Steps per second, just now; takes some 20 microseconds.
  double read();

 private:
  void serve(int cpu);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t asked_ = 0, answered_ = 0;
  bool ended_ = false;
  double rate_ = 0;
  std::thread thread_;
};

}  // namespace ridge::measure
