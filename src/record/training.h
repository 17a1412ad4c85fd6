// What a project's training command told about a kernel: a few steps of training around it.
#pragma once

#include <cstdint>

namespace ridge::record {

struct TrainingTrace {
  std::int64_t steps = 0, failed = 0;             // failed: steps whose Check is not PASS
  double step = 0, kernel = 0, weight = 0;        // seconds: medians over the steps
  std::int64_t least_weight_hits = 0;             // in any one step
  std::int64_t weight_hits = 0, tensor_hits = 0;  // in all steps
  static void fields(auto& v, auto& self) {
    v("steps", self.steps);
    v("failed", self.failed);
    v("step", self.step);
    v("kernel", self.kernel);
    v("weight", self.weight);
    v("least_weight_hits", self.least_weight_hits);
    v("weight_hits", self.weight_hits);
    v("tensor_hits", self.tensor_hits);
  }
};

}  // namespace ridge::record
