#include "evaluate/cuda/cuda_measurement_backend.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"
#include "device/cuda/nvml.h"

namespace ridge::evaluate::cuda {
namespace {

using record::Defence;
using record::Outcome;

constexpr int kSessionsPerProcess = 8;
constexpr std::size_t kMaxIdle = 4;
constexpr int kLaunchesPerReading = 16;

std::string key_of(const Subject& subject, const std::vector<ops::Problem>& problems) {
  std::string key = fmt::format("{}|{}|{}", subject.name, static_cast<const void*>(subject.implementation),
                                static_cast<const void*>(subject.program.get()));
  for (const ops::Problem& problem : problems) key += "|" + problem.problem_case.label();
  return key;
}

}  // namespace

// What NVML says while a session runs: at its ends, and between launches, by whichever arm is next. Facts about the
// device, the same for both arms.
class CudaWatch final : public Watch {
 public:
  explicit CudaWatch(CudaMeasurementBackend& measurement) : measurement_(measurement) {
    measurement_.watch_ = this;
    note();
  }
  ~CudaWatch() override {
    if (measurement_.watch_ == this) measurement_.watch_ = nullptr;
  }
  CudaWatch(const CudaWatch&) = delete;
  CudaWatch& operator=(const CudaWatch&) = delete;

  void launched() {
    if (++launches_ % kLaunchesPerReading == 0) note();
  }

  std::map<std::string, double> guards(std::span<const Launcher* const>) override {
    note();
    std::map<std::string, double> guards = {{"throttle", static_cast<double>(throttled_)},
                                            {"telemetry_readings", static_cast<double>(readings_)}};
    if (power_ > 0) guards["power_watts_max"] = power_;
    if (temperature_ > 0) guards["temperature_celsius_max"] = temperature_;
    // Where none of our own processes can be seen, the absence of others says nothing.
    if (own_seen_) {
      guards["foreign_processes"] = static_cast<double>(foreign_);
      // A process beside ours may use the device at any moment; how much of the load is its own cannot be told.
      guards["foreign_load"] = foreign_ > 0 ? 1.0 : 0.0;
    }
    return guards;
  }

 private:
  void note() {
    const device::cuda::Telemetry seen = device::cuda::read_telemetry(measurement_.harness_.gpu.uuid);
    ++readings_;
    throttled_ += seen.throttled() ? 1 : 0;
    power_ = std::max(power_, seen.power_watts.value_or(0));
    temperature_ = std::max(temperature_, seen.temperature_celsius.value_or(0));
    if (!seen.processes) return;
    std::int64_t foreign = 0;
    for (const device::cuda::GpuProcess& process : *seen.processes) {
      const bool own = measurement_.own_.contains(process.pid);
      own_seen_ = own_seen_ || own;
      foreign += own ? 0 : 1;
    }
    foreign_ = std::max(foreign_, foreign);
  }

  CudaMeasurementBackend& measurement_;
  int readings_ = 0, throttled_ = 0, launches_ = 0;
  std::int64_t foreign_ = 0;
  double power_ = 0, temperature_ = 0;
  bool own_seen_ = false;
};

class CudaLauncher final : public Launcher {
 public:
  CudaLauncher(CudaMeasurementBackend& measurement, CudaMeasurementBackend::Idle idle)
      : measurement_(measurement), idle_(std::move(idle)) {}
  ~CudaLauncher() override { measurement_.give_back(std::move(idle_)); }
  CudaLauncher(const CudaLauncher&) = delete;
  CudaLauncher& operator=(const CudaLauncher&) = delete;

  LaunchResult launch(std::size_t index, Depth depth) override {
    if (measurement_.watch_ != nullptr) measurement_.watch_->launched();
    auto result = idle_.process.launch(index, depth);
    if (!result) return noted(std::move(result.error()));
    return Launch{result->latency, result->idle_clock, result->clock};
  }
  Verdict finish() override {
    Verdict verdict = idle_.process.finish();
    if (!verdict) return noted(std::move(verdict.error()));
    return verdict;
  }
  [[nodiscard]] const Verification& verification(std::size_t index) const override {
    return idle_.process.verification(index);
  }
  [[nodiscard]] std::map<std::string, double> facts() const override { return idle_.process.facts(); }

 private:
  Failure noted(Failure failure) {
    if (!idle_.process.running()) measurement_.note_failure();
    return failure;
  }
  CudaMeasurementBackend& measurement_;
  CudaMeasurementBackend::Idle idle_;
};

SubjectRunnerSpec CudaMeasurementBackend::spec_of(const Subject& subject, const ops::Operator& op,
                                                  const std::vector<ops::Problem>& problems) const {
  SubjectRunnerSpec spec;
  spec.subject = subject;
  spec.op = &op;
  spec.problems = problems;
  spec.protocol = harness_.protocol;
  spec.defences = harness_.defences;
  spec.device = harness_.gpu.index;
  spec.images = harness_.images;
  return spec;
}

Verdict CudaMeasurementBackend::recover() {
  if (unusable_.empty() && doubtful_) {
    if (auto broken = device_trouble(harness_.gpu.index, *harness_.images)) {
      unusable_ = "the device did not come back after a failed kernel: " + *broken;
      idle_.clear();
    }
    doubtful_ = false;
  }
  if (unusable_.empty()) return passed();
  return Failure{Outcome::kHarnessFault, unusable_, Defence::kNone};
}

OpenResult CudaMeasurementBackend::open(const Subject& subject, const ops::Operator& op,
                                        const std::vector<ops::Problem>& problems) {
  const auto launcher_of = [this](Idle idle) -> std::unique_ptr<Launcher> {
    return std::make_unique<CudaLauncher>(*this, std::move(idle));
  };
  RIDGE_CHECK_OK(recover());
  const std::string key = key_of(subject, problems);
  const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const Idle& idle) { return idle.key == key; });
  if (found != idle_.end()) {
    Idle idle = std::move(*found);
    idle_.erase(found);
    ++idle.sessions;
    if (idle.process.renew().ok()) return launcher_of(std::move(idle));
  }
  RIDGE_TRY(started, DeviceProcess::start(spec_of(subject, op, problems)));
  Idle idle{key, 1, std::move(started)};
  own(idle.process);
  // One after the other: a process that measures its instrument beside another one gets it wrong.
  if (Verdict ready = idle.process.await_ready(); !ready) {
    note_failure();
    return explained(std::move(ready.error()));
  }
  return launcher_of(std::move(idle));
}

Failure CudaMeasurementBackend::explained(Failure failure) const {
  if (failure.outcome != Outcome::kHarnessFault) return failure;
  std::vector<std::int64_t> strangers;
  const auto listed = device::cuda::read_telemetry(harness_.gpu.uuid).processes;
  for (const device::cuda::GpuProcess& process : listed.value_or(std::vector<device::cuda::GpuProcess>())) {
    if (!own_.contains(process.pid)) strangers.push_back(process.pid);
  }
  if (!strangers.empty()) {
    failure.detail +=
        fmt::format("; the driver lists processes on this GPU that are not ours (ids {}): end them, or measure later",
                    fmt::join(strangers, ", "));
  }
  return failure;
}

void CudaMeasurementBackend::give_back(Idle idle) {
  if (!idle.process.running() || idle.sessions >= kSessionsPerProcess) return;
  if (idle_.size() >= kMaxIdle) idle_.erase(idle_.begin());
  idle_.push_back(std::move(idle));
}

std::unique_ptr<Watch> CudaMeasurementBackend::watch() { return std::make_unique<CudaWatch>(*this); }

}  // namespace ridge::evaluate::cuda
