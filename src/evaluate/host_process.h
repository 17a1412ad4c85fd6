// A process that runs one implementation, seen from the harness: started fresh, called through shared memory, watched
// by clocks it cannot touch, killed when it does not answer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "evaluate/defences.h"
#include "evaluate/failure.h"
#include "evaluate/host_protocol.h"
#include "evaluate/host_starter.h"
#include "ops/op.h"
#include "record/measurement.h"
#include "ridge/result.h"
#include "ridge/tensor.h"

namespace ridge::evaluate {

// One call, in seconds. `latency` is what counts: the largest of
//   wall - hand-shake          the harness's own clock, from waking the host to seeing its answer,
//   cpu / threads - slack      processor time that the kernel accounted to the host during the call,
// plus any processor time used since the previous answer. The span that the host claims lowers nothing: it is evidence.
// Hand-shake and slacks are those of empty calls before any code of the candidate was mapped.
struct CallTiming {
  double latency = 0, span = 0, wall = 0, cpu = 0, outside = 0;
};

using CallResult = Attempt<CallTiming>;

struct HostOptions {
  std::filesystem::path program;  // ridge-host
  std::vector<int> cpus;          // where it may run: one per thread
  double call_timeout = 30.0;
  std::uint64_t memory_limit_bytes = 4ull << 30;  // on top of the shared region
  std::size_t region_bytes = 0;                   // for operands, without the control block
  Defences defences;
  // The run time to preload for an artefact built with AddressSanitizer and UBSan, whose time means nothing.
  std::filesystem::path sanitizer_runtime;
};

class HostProcess {
 public:
  // A trusted implementation: a copy of this process that serves `kernel`, without a sandbox.
  using Kernel = std::function<std::int32_t(const ridge_call&)>;

  HostProcess() = default;
  HostProcess(HostProcess&& other) noexcept;
  HostProcess& operator=(HostProcess&& other) noexcept;
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;
  ~HostProcess();

  // Starts ridge-host, has it sandboxed, then has it load the artefact. A candidate that may not or cannot be loaded is
  // a Failure; so is a sandbox that lacks a part which this machine has.
  static Attempt<HostProcess> start_candidate(const std::filesystem::path& artifact, const HostOptions& options);
  static Attempt<HostProcess> start_library(Kernel kernel, const HostOptions& options);

  // The operands' part of the shared memory.
  [[nodiscard]] unsigned char* arena() const { return region_ + kControlBytes; }
  [[nodiscard]] std::size_t arena_bytes() const { return region_bytes_ - kControlBytes; }

  // Calls the kernel once. The views must lie in arena(). `collect` runs as soon as the answer is seen: a caller that
  // wants the outputs copies them there, before the host has had time for anything else. `touched` is read beforehand
  // on the processor that the call will run on, so that it is in its caches.
  CallResult call(const ops::Arguments& arguments, std::span<const std::int64_t> params, std::int64_t threads,
                  const std::function<void()>& collect = {}, std::span<const unsigned char> touched = {});

  // Makes these ranges of the arena (first byte, bytes; whole pages) inaccessible to the host, and all others
  // accessible.
  Verdict fence(std::span<const std::pair<std::size_t, std::size_t>> ranges);
  // Where in the arena the access was that ended the host; nothing when it was elsewhere, or ended otherwise.
  [[nodiscard]] std::optional<std::size_t> fault_at() const { return fault_at_; }

  // For candidates: a Failure if the host used noticeable processor time since its last answer: work that was not
  // timed.
  Verdict check_quiet();
  // After a candidate's last call: a closer look, some milliseconds long, whether anything still works.
  Verdict finish();

  // Stops every thread of a library's process until it is thawed: while another one is measured, its idle workers,
  // which in some libraries spin, use no processor time. A candidate is never stopped: what it does between its calls
  // is counted and called cheating, and stopping it would hide that; besides, waking a stopped process costs it up to a
  // millisecond of processor time on a virtual machine, which would be held against it.
  void freeze() const;
  void thaw() const;

  [[nodiscard]] std::uint32_t sandbox() const { return sandbox_; }
  // Processor seconds used so far; for guards.
  [[nodiscard]] double cpu_seconds() const;
  // Wall seconds of the quickest empty call, which are taken off every call's.
  [[nodiscard]] double hand_shake() const { return hand_shake_; }
  // What a candidate that serves its requests itself could hide of a call, in seconds: the instructions that ridge-host
  // runs between its wake-up and the kernel, and processor time between calls that is not charged. 0 for a library.
  [[nodiscard]] double hidden() const;
  // Largest |wall - span| seen beyond the empty call, in seconds.
  [[nodiscard]] double witness_gap() const { return witness_gap_; }

 private:
  Verdict create_region(std::size_t bytes);
  static Attempt<HostProcess> start_empty(int artifact_fd, const HostOptions& options);
  static Attempt<std::uint32_t> sandbox_of_machine(const std::filesystem::path& program);
  Verdict load(bool sanitized);
  Verdict command(HostCommand command, double timeout);
  // The same on the clock: from the moment the host is woken until its answer is seen.
  struct Span {
    std::uint64_t start_ns = 0, end_ns = 0;
    double cpu = 0;  // that the host had used at the start
  };
  Attempt<Span> timed(HostCommand command, std::span<const unsigned char> touched = {});
  Verdict calibrate();
  Verdict wait_reply(double timeout, bool spins);
  // The calling thread runs on none of the host's processors: it may wait for an answer without sleeping.
  [[nodiscard]] bool has_own_processor() const;
  // All threads of the host share one processor: its processor time is no less than the work.
  [[nodiscard]] bool one_processor() const;
  void settle();
  [[nodiscard]] Verdict check_processor() const;
  [[nodiscard]] CallResult judge_clocks(const Span& span, CallTiming timing, std::int64_t threads);
  // Counts a contradiction between clocks, whose time is charged to the call in any case: no candidate gains by
  // one. True once they are a habit, in most of the calls: a candidate's clock that lies does so call after call. A
  // hypervisor makes them too, when it takes the processor while the host wakes or falls asleep, and in bursts: 3 of 22
  // calls of an honest kernel were seen.
  bool habitual();
  [[nodiscard]] bool works_without_request() const;
  [[nodiscard]] Failure went_on_working(double used) const;
  [[nodiscard]] Failure explain_end(int wait_status);
  [[nodiscard]] std::string explain_address() const;
  [[nodiscard]] HostControl& control() const { return *reinterpret_cast<HostControl*>(region_); }
  void kill();

  pid_t pid_ = -1;
  int region_fd_ = -1, report_fd_ = -1;
  unsigned char* region_ = nullptr;
  std::size_t region_bytes_ = 0;
  std::uint32_t number_ = 0, sandbox_ = 0;
  double call_timeout_ = 30.0;
  std::uint64_t memory_limit_bytes_ = 0;
  double cpu_after_answer_ = 0, last_latency_ = 0;
  int calls_ = 0, contradictions_ = 0;
  std::optional<std::size_t> fault_at_;
  Defences defences_;
  bool trusted_ = false;  // a library: its idle workers may spin, and its own clock is believed
  std::vector<int> cpus_;
  std::unique_ptr<HostStarter> starter_;
  double hand_shake_ = 0, cpu_slack_ = 0, quiet_slack_ = 0, witness_gap_ = 0;
};

}  // namespace ridge::evaluate
