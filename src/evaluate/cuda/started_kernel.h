// A candidate that includes a kernel of the library (record/kernel_start.h): it is compiled with the macros of the case
// that it names, and can run every case that gives the same.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/op.h"
#include "record/candidate.h"
#include "record/kernel_description.h"
#include "ridge/result.h"

namespace ridge::evaluate::cuda {

struct StartedKernel {
  record::KernelDescription kernel;
  std::string built_for;            // the case, normalised
  std::vector<std::string> macros;  // "NAME=VALUE"
};

// Null where a candidate names no case. `defines`: every tunable's value.
Result<std::shared_ptr<const StartedKernel>> started_kernel(const record::Candidate& candidate,
                                                            const std::map<std::string, std::int64_t>& defines);

// Why another case cannot run in that build: the first macro that would differ. `facts` hold the tunables, too.
ops::Refusal needs_another_build(const StartedKernel& started, const record::PlanFacts& facts);

}  // namespace ridge::evaluate::cuda
