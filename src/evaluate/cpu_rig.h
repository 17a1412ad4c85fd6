// The rig of this machine's processor: every subject in a process of its own, pinned; the harness on another processor.
#pragma once

#include "evaluate/rig.h"
#include "evaluate/station.h"
#include "measure/clock_probe.h"

namespace ridge::evaluate {

class CpuRig final : public Rig {
 public:
  explicit CpuRig(const Harness& harness) : harness_(harness), probe_(harness.placement.measured.front()) {}

  OpenResult open(const Subject& subject, const ops::Operator& op, const std::vector<ops::Problem>& problems) override;
  std::unique_ptr<Watch> watch() override;

 private:
  const Harness& harness_;
  measure::ClockProbe probe_;
};

}  // namespace ridge::evaluate
