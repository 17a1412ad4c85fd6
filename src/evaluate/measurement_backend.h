// What measuring needs of a backend: subjects that can be launched on verified fresh inputs, and the state of the
// machine around them. Sessions, benchmarks and decisions are written against this alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluate/subject.h"
#include "evaluate/verify.h"

namespace ridge::evaluate {

// One timed launch whose output was verified.
struct Launch {
  double latency = 0;  // seconds
  // Of the processor just before this launch, in any unit that stays the same: what the machine gave both arms alike.
  std::optional<double> clock;
  // While it ran, Hz, where the subject itself moves it (a GPU slows down for kernels that draw more power).
  std::optional<double> own_clock = {};
};
using LaunchResult = Attempt<Launch>;

// A subject in a fresh process, or freshly loaded on a device, with new memory of its own.
class Launcher {
 public:
  Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  virtual ~Launcher() = default;

  // One launch of problem `index` of those it was opened with.
  virtual LaunchResult launch(std::size_t index, Depth depth) = 0;
  // A closer look, after the last launch, whether anything still works.
  virtual Verdict finish() = 0;
  [[nodiscard]] virtual const Verification& verification(std::size_t index) const = 0;
  // Facts recorded with a session, the larger of the two arms': "witness_gap_max", "hand_shake", ...
  [[nodiscard]] virtual std::map<std::string, double> facts() const { return {}; }
  // Bits of evaluate/host_protocol.h; 0 when no foreign host code runs.
  [[nodiscard]] virtual std::uint32_t sandbox() const { return 0; }
  // Seconds that a subject could hide of a launch: a session adds them to the candidate's, and not to the incumbent's.
  [[nodiscard]] virtual double hidden() const { return 0; }
  // Processor time of its own process, so that a watch can tell it from other people's.
  [[nodiscard]] virtual double processor_seconds() const { return 0; }
};
using OpenResult = Attempt<std::unique_ptr<Launcher>>;

// A stretch of time during which the machine is watched.
class Watch {
 public:
  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  virtual ~Watch() = default;
  // Facts since the watch began that are the same for both arms; names and limits: stats/session.h.
  virtual std::map<std::string, double> guards(std::span<const Launcher* const> launchers) = 0;
};

class MeasurementBackend {
 public:
  MeasurementBackend() = default;
  MeasurementBackend(const MeasurementBackend&) = delete;
  MeasurementBackend& operator=(const MeasurementBackend&) = delete;
  virtual ~MeasurementBackend() = default;

  virtual OpenResult open(const Subject& subject, const ops::Operator& op,
                          const std::vector<ops::Problem>& problems) = 0;
  virtual std::unique_ptr<Watch> watch() = 0;
};

}  // namespace ridge::evaluate
