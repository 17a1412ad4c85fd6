// A CUDA candidate as the harness holds it: machine code and a launch plan. No host code of a candidate exists.
#pragma once

#include <map>
#include <string>

#include "record/launch_plan.h"

namespace ridge::evaluate::cuda {

struct Program {
  std::string cubin;
  record::LaunchPlan plan;
  std::map<std::string, std::int64_t> defines;  // every tunable, defaults filled in
};

}  // namespace ridge::evaluate::cuda
