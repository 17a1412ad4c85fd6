// What the files of this folder share.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op.h"
#include "ops/scaling.h"

namespace ridge::ops::dequantize {

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t { kRows, kCols, kFormat, kScaling, kDtype, kParamCount };

inline constexpr DType kFormats[] = {DType::kE4m3fn, DType::kE5m2};           // by the value of `format`
inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // of `dtype`

struct Shape {
  std::int64_t rows = 0, cols = 0;
  DType format = DType::kE4m3fn, dtype = DType::kF32;
  Granularity granularity = Granularity::kTensor;
};

inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  const auto at = [&](Param param) { return static_cast<std::size_t>(v[param]); };
  return Shape{v[kRows], v[kCols], kFormats[at(kFormat)], kDtypes[at(kDtype)], kGranularities[at(kScaling)]};
}

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands);
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
std::shared_ptr<const DeviceCheck> device_check();

}  // namespace ridge::ops::dequantize
