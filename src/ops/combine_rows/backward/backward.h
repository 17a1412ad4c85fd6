// What the files of this folder share.
#pragma once

#include "ops/combine_rows/backward/contract.h"
#include "ops/combine_rows/combine_rows.h"

namespace ridge::ops::combine_rows_backward {

using combine_rows::Shape;
using combine_rows::shape_of;

enum OperandAt : std::size_t { kX = combine_rows::kX, kFrom = combine_rows::kFrom, kDy, kDweights };

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::combine_rows_backward
