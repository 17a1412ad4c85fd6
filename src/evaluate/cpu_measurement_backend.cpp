#include "evaluate/cpu_measurement_backend.h"

#include <algorithm>

namespace ridge::evaluate {
namespace {

// A runner whose processor's clock is read just before every launch, and whose process, if it is a library's, is
// frozen between launches.
class CpuLauncher final : public Launcher {
 public:
  CpuLauncher(std::unique_ptr<SubjectRunner> runner, measure::ClockProbe& probe)
      : runner_(std::move(runner)), probe_(probe) {
    runner_->host().freeze();
  }

  LaunchResult launch(std::size_t index, Depth depth) override {
    const double clock = probe_.read();
    runner_->host().thaw();
    CallResult result = runner_->launch(index, depth);
    runner_->host().freeze();
    if (!result) return std::move(result.error());
    return Launch{result->latency, clock};
  }
  Verdict finish() override {
    runner_->host().thaw();
    return runner_->finish();
  }
  [[nodiscard]] const Verification& verification(std::size_t index) const override {
    return runner_->verification(index);
  }
  [[nodiscard]] std::map<std::string, double> facts() const override {
    return {{"witness_gap_max", runner_->host().witness_gap()}, {"hand_shake", runner_->host().hand_shake()}};
  }
  [[nodiscard]] std::uint32_t sandbox() const override { return runner_->host().sandbox(); }
  [[nodiscard]] double hidden() const override { return runner_->host().hidden(); }
  [[nodiscard]] double processor_seconds() const override { return runner_->host().cpu_seconds(); }

 private:
  std::unique_ptr<SubjectRunner> runner_;
  measure::ClockProbe& probe_;
};

class CpuWatch final : public Watch {
 public:
  explicit CpuWatch(const Harness& harness) : pin_(harness), before_(measure::read_cpu_account()) {}

  std::map<std::string, double> guards(std::span<const Launcher* const> launchers) override {
    double host_seconds = 0;
    for (const Launcher* launcher : launchers) host_seconds += launcher->processor_seconds();
    const measure::StretchGuards stretch = measure::guards_between(before_, measure::read_cpu_account(), host_seconds);
    return {{"steal_fraction", stretch.steal_fraction}, {"foreign_load", stretch.foreign_load}};
  }

 private:
  HarnessPin pin_;
  measure::CpuAccount before_;
};

}  // namespace

OpenResult CpuMeasurementBackend::open(const Subject& subject, const ops::Operator& op,
                                       const std::vector<ops::Problem>& problems) {
  RIDGE_TRY(opened, SubjectRunner::open(subject, op, problems, harness_, RowPadding::kNone, secrets_of(subject)));
  return std::unique_ptr<Launcher>(std::make_unique<CpuLauncher>(std::move(opened), probe_));
}

Secrets CpuMeasurementBackend::secrets_of(const Subject& subject) {
  if (!seed_) return Secrets();
  const std::int64_t number = opened_[subject.name]++;
  return Secrets(static_cast<std::uint64_t>(*seed_), subject.name).branch(std::to_string(number));
}

std::unique_ptr<Watch> CpuMeasurementBackend::watch() { return std::make_unique<CpuWatch>(harness_); }

}  // namespace ridge::evaluate
