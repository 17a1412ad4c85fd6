// What the files of this folder share.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/activation/activation.h"
#include "ops/activation/backward/contract.h"

namespace ridge::ops::activation_backward {

using activation::shape_of;

// Positions in Problem::values behind those of activation.
enum Param : std::size_t { kDx = activation::kParamCount, kDup, kDprobs, kParamCount };

struct Wanted {
  bool dx = false, dup = false, dprobs = false;
};
inline Wanted wanted_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return {v[kDx] == 1, v[kDup] == 1, v[kDprobs] == 1};
}

Result<Call> make_call(const Args& args);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::activation_backward
