// What the files of this folder share.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op.h"
#include "ops/rescale/contract.h"

namespace ridge::ops::rescale {

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t { kRows, kCols, kDtype, kPerRow, kParamCount };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`

struct Shape {
  std::int64_t rows = 0, cols = 0;
  DType dtype = DType::kBf16;
  bool per_row = false;
};

inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return Shape{v[kRows], v[kCols], kDtypes[static_cast<std::size_t>(v[kDtype])], v[kPerRow] == 1};
}

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::rescale
