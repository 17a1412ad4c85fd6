// check on a GPU: every case in full, and undisclosed shapes near it and larger ones.
#pragma once

#include <functional>
#include <vector>

#include "evaluate/check_policy.h"
#include "evaluate/cuda/cuda_measurement_backend.h"
#include "record/measurement.h"

namespace ridge::evaluate::cuda {

struct GpuCheck {
  CudaMeasurementBackend& measurement;
  const Subject& subject;
  const ops::Operator& op;
  const std::vector<ops::Problem>& problems;
  std::uint64_t seed = 0;                     // of everything secret
  bool deterministic = false;                 // the subject says that equal calls give equal bits
  std::function<double()> remaining;          // seconds; may be empty
  std::function<void(std::size_t)> progress;  // may be empty

  [[nodiscard]] CheckLimits limits() const {
    return limits_of_gpu(static_cast<double>(measurement.harness().gpu.memory_bytes));
  }
};

// One row per problem. A problem outside the declared domain of a plan has a row that says so in its lanes.
std::vector<record::CheckRow> check_on_gpu(const GpuCheck& check);

}  // namespace ridge::evaluate::cuda
