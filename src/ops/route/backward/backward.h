// What the files of this folder share.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/route/backward/contract.h"
#include "ops/route/route.h"

namespace ridge::ops::route_backward {

using route::Shape;
using route::shape_of;

enum OperandAt : std::size_t { kLogits, kExperts, kDweights, kDlogits };

Result<Call> make_call(const Args& args);
// In host memory: an error where one is no expert.
Status check_experts(const Problem& problem, const Arguments& arguments);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::route_backward
