#include <cmath>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/format.h"
#include "scale/scale.h"

namespace ridge::ops::scale {

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  const double alpha = static_cast<float>(problem.real(kAlpha)), beta = arguments.scalar(problem, kBeta).real();
  ReferenceOutput y;
  for (const double x : numerics::to_doubles(arguments[0])) {
    const double product = alpha * x;
    y.value.push_back(product + beta);
    y.allowed.push_back(0x1p-24 * (std::abs(product) + std::abs(y.value.back())) + 0x1p-149);
    const double of_product = numerics::ulp(DType::kF32, product), of_sum = numerics::ulp(DType::kF32, y.value.back());
    y.ideal_square.push_back((of_product * of_product + of_sum * of_sum) / 12);  // a rounding each
  }
  return std::vector{std::move(y)};
}

// Work per element is so small that the cheap check is the whole one.
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t) {
  return spot_check_by_reference(problem, arguments, reference);
}

}  // namespace ridge::ops::scale
