#include <cmath>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/format.h"
#include "scale/scale.h"

namespace ridge::ops::scale {

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  ReferenceOutput y;
  for (const double x : numerics::to_doubles(operands[0])) {
    y.value.push_back(static_cast<double>(problem.values[kAlpha]) * x);
    y.allowed.push_back(0x1p-24 * std::abs(y.value.back()) + 0x1p-149);
    const double spacing = numerics::ulp(DType::kF32, y.value.back());
    y.ideal_square.push_back(spacing * spacing / 12);  // one rounding
  }
  return std::vector{std::move(y)};
}

// Work per element is so small that the cheap check is the whole one.
Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t) {
  return spot_check_by_reference(problem, operands, reference);
}

}  // namespace ridge::ops::scale
