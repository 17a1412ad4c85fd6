// The measurement of this machine's processor: every subject in a process of its own, pinned; the harness on another
// processor.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "evaluate/measurement_backend.h"
#include "evaluate/subject_runner.h"
#include "measure/clock_probe.h"

namespace ridge::evaluate {

class CpuMeasurementBackend final : public MeasurementBackend {
 public:
  // With a seed, the n-th process of a subject gets the same inputs in every measurement; without one they are secret.
  explicit CpuMeasurementBackend(const Harness& harness, std::optional<std::int64_t> seed = std::nullopt)
      : harness_(harness), seed_(seed), probe_(harness.placement.measured.front()) {}

  OpenResult open(const Subject& subject, const ops::Operator& op, const std::vector<ops::Problem>& problems) override;
  std::unique_ptr<Watch> watch() override;

 private:
  Secrets secrets_of(const Subject& subject);

  const Harness& harness_;
  std::optional<std::int64_t> seed_;
  std::map<std::string, std::int64_t> opened_;  // processes of each subject so far
  measure::ClockProbe probe_;
};

}  // namespace ridge::evaluate
