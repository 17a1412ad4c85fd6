// What the files of this folder share: the parameters as numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/coding/coding.h"
#include "ops/op.h"

namespace ridge::ops::quantize {

// Positions in Problem::values and in the operator's parameter list; those of coding follow.
enum Param : std::size_t { kRows, kCols, kDtype, kParamCount };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`

inline coding::Coding coding_of(const Problem& problem) {
  return coding::coding_of(problem, kParamCount, problem.values[kRows], problem.values[kCols]);
}

// The operator's parts, one per file.
std::vector<record::ParamInfo> params();
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
std::shared_ptr<const DeviceCheck> device_check();

}  // namespace ridge::ops::quantize
