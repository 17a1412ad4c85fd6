// A CUDA candidate as the harness holds it: machine code and a launch plan. No host code of a candidate exists.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "evaluate/cuda/started_kernel.h"
#include "record/launch_plan.h"

namespace ridge::evaluate::cuda {

struct Program {
  std::string cubin;
  record::LaunchPlan plan;
  std::map<std::string, std::int64_t> defines;             // every tunable, defaults filled in
  std::shared_ptr<const StartedKernel> started = nullptr;  // of one that includes a kernel of the library
};

}  // namespace ridge::evaluate::cuda
