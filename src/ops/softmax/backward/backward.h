// What the files of this folder share.
#pragma once

#include <memory>
#include <vector>

#include "ops/softmax/backward/contract.h"
#include "ops/softmax/softmax.h"

namespace ridge::ops::softmax_backward {

Result<Call> make_call(const Args& args);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::softmax_backward
