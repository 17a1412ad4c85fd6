// What the files of this folder share.
#pragma once

#include "ops/op.h"
#include "scale/backward/contract.h"

namespace ridge::ops::scale_backward {

enum Param : std::size_t { kN, kAlpha, kGain, kWanted, kParamCount };  // positions in Problem::values
enum Wanted : std::int64_t { kDx, kDgain, kBoth };

Result<Call> make_call(const Args& args);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::scale_backward
