// What the files of this folder share.
#pragma once

#include <vector>

#include "ops/row_norm/row_norm.h"

namespace ridge::ops::layernorm {

inline constexpr row_norm::Kind kKind{"layernorm", true};

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::layernorm
