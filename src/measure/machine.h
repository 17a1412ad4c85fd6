// The machine as a measuring instrument: placement, caches, clock, and how much of it other processes used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ridge/result.h"

namespace ridge::measure {

// Processors this process may run on, ascending.
std::vector<int> usable_cpus();

// Restricts a thread (0: the calling one) to `cpus`.
Status pin(std::int32_t thread_id, const std::vector<int>& cpus);

// Which processors the measured call and the harness run on. The measured call gets the first `threads` processors; the
// harness the last one left, or all of them when none is left (it sleeps during a call either way).
struct Placement {
  std::vector<int> measured, harness;
  [[nodiscard]] std::vector<int> all() const;
  // The harness has no processor of its own.
  [[nodiscard]] bool shared() const { return harness.size() != 1 || harness == measured; }
};
// Errors: fewer processors than threads.
Result<Placement> place(std::int64_t threads, const std::vector<int>& usable);

// Removes [data, data + bytes) from every level of the cache hierarchy of every core: CLFLUSHOPT or CLFLUSH on x86-64,
// DC CIVAC on AArch64. It works through any mapping of the same memory, and it does not depend on how large or how
// shared the last-level cache is. False when the processor offers no such instruction to user programs.
bool evict(const void* data, std::size_t bytes);
const char* evict_method();  // "clflushopt", "clflush", "dc civac" or "none"

// Monotonic nanoseconds, the same clock in every process.
std::uint64_t now_ns();

// Seconds that a chain of `steps` times six dependent integer operations takes: proportional to 1 / clock frequency.
double dependent_chain(std::int64_t steps);

// What the kernel accounted so far, in seconds of processor time.
struct CpuAccount {
  double busy = 0;   // all processes on all processors
  double steal = 0;  // taken by the hypervisor
  double total = 0;  // busy + idle + steal
  double own = 0;    // this process and its ended children
};
CpuAccount read_cpu_account();

// Guards of a stretch of time, symmetric in the arms by construction.
struct StretchGuards {
  double steal_fraction = 0;  // of all processor time
  double foreign_load = 0;    // busy time that is neither ours nor `hosts`, as a fraction of all processor time
};
StretchGuards guards_between(const CpuAccount& before, const CpuAccount& after, double host_seconds);

// "others used 44 % of the processors" where that was more than a quiet machine shows, else empty.
std::string disturbance(const StretchGuards& stretch, double max_steal, double max_foreign_load);

// Processor time of another process (all its threads) as the kernel accounts it; negative when it is gone.
double process_cpu_seconds(std::int32_t pid);

}  // namespace ridge::measure
