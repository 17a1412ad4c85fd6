// What the files of this folder share: the parameters as numbers, and which operand is where.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/op.h"
#include "ops/scaling.h"

namespace ridge::ops::quantize {

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t { kRows, kCols, kDtype, kFormat, kScaling, kScale, kCopies, kRounding, kAmax, kParamCount };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`
inline constexpr DType kFormats[] = {DType::kE4m3fn, DType::kE5m2};           // of `format`
inline constexpr ScaleRule kRules[] = {ScaleRule::kExact, ScaleRule::kFloor, ScaleRule::kEven, ScaleRule::kCeil};
enum Copies : std::int64_t { kAsIs, kTransposed, kBoth };

struct Shape {
  std::int64_t rows = 0, cols = 0;
  DType dtype = DType::kF32, format = DType::kE4m3fn;
  Granularity granularity = Granularity::kTensor;
  ScaleRule rule = ScaleRule::kExact;
  Copies copies = kAsIs;
  bool stochastic = false;
  bool given = false;  // the largest magnitude: operands `amax` and `found`
};

inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  const auto at = [&](Param param) { return static_cast<std::size_t>(v[param]); };
  return Shape{v[kRows],
               v[kCols],
               kDtypes[at(kDtype)],
               kFormats[at(kFormat)],
               kGranularities[at(kScaling)],
               kRules[at(kScale)],
               static_cast<Copies>(v[kCopies]),
               v[kRounding] == 1,
               v[kAmax] == 1};
}

// One copy that is asked for, as operands of a Problem: codes at `q`, scales behind them.
struct Copy {
  bool transposed = false;
  std::size_t q = 0;
};
inline std::vector<Copy> copies_of(const Shape& s) {
  std::vector<Copy> copies;
  std::size_t next = 1 + (s.stochastic ? 1 : 0) + (s.given ? 1 : 0);  // x, the random words, the largest magnitude
  for (const bool transposed : {false, true}) {
    if (s.copies == (transposed ? kAsIs : kTransposed)) continue;
    copies.push_back({transposed, next});
    next += 2;
  }
  return copies;
}

// Bits of the largest magnitude that a call on a processor brings along; 0: it leaves the scale to x.
Result<std::uint32_t> given_amax(const Problem& problem, std::span<const TensorView> operands);

// The operator's parts, one per file.
std::vector<record::ParamInfo> params();
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands);
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
std::shared_ptr<const DeviceCheck> device_check();

}  // namespace ridge::ops::quantize
