// Starts a host's call from the processor that it will run on.
//
// A thread of the harness lives on the first measured processor. Before a call it keeps that processor awake for a
// moment, reads the processor time of the host, takes the time, wakes the host and goes to sleep, so that the host
// follows it on the same processor at once: no sleep state is left, no other processor has to be told. What lies
// between the stamp and the first instruction of the kernel is one switch between threads, and no program can be
// quicker than that by leaving something out.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>

namespace ridge::evaluate {

class HostStarter {
 public:
  // On no processor in particular when `cpu` is negative.
  explicit HostStarter(int cpu);
  HostStarter(const HostStarter&) = delete;
  HostStarter& operator=(const HostStarter&) = delete;
  ~HostStarter();

  struct Stamp {
    std::uint64_t ns = 0;  // just before the host was woken
    double cpu = 0;        // processor seconds that it had used by then
  };

  // Sets `request` to `number` and wakes the process that waits for it, a little later.
  // `touched` is read first, into the caches of the processor.
  void start(pid_t pid, std::uint32_t* request, std::uint32_t number, std::span<const unsigned char> touched = {});
  // The processor seconds that a process had used at a moment when none of its threads ran on this processor: the
  // account of a running thread moves at ticks only, milliseconds apart.
  double processor_seconds(pid_t pid);
  // Of the last start; waits for it.
  Stamp stamp() const;
  // Waits until nothing of `request` is used any more.
  void finish() const;

 private:
  void serve(int cpu);

  // Each is the number of the last start that got so far.
  std::atomic<int> asked_ = 0, stamped_ = 0, finished_ = 0;  // int: waited for without a detour
  std::atomic<bool> ended_ = false;
  pid_t pid_ = -1;
  std::uint32_t* request_ = nullptr;  // null: only the time is taken
  std::uint32_t number_ = 0;
  std::span<const unsigned char> touched_;
  Stamp stamp_;
  std::thread thread_;
};

}  // namespace ridge::evaluate
