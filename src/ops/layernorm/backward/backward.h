// What the files of this folder share.
#pragma once

#include <vector>

#include "ops/layernorm/backward/contract.h"
#include "ops/row_norm/row_norm.h"

namespace ridge::ops::layernorm_backward {

inline constexpr row_norm::Kind kKind{"layernorm_backward", true};

// What stands in Problem::values behind the parameters of row_norm.
enum Param : std::size_t { kDx = row_norm::kResidual + 1, kDweight, kDbias, kParamCount };

row_norm::BackwardShape shape_of(const Problem& problem);

Result<Call> make_call(const Args& args);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::layernorm_backward
