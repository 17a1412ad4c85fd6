#include <cmath>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/format.h"
#include "scale/scale.h"

namespace ridge::ops::scale {
namespace {

double square(double x) { return x * x; }

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  const double alpha = static_cast<float>(problem.real(kAlpha)), beta = arguments.scalar(problem, kBeta).real();
  const std::vector<double> x = numerics::to_doubles(arguments[0]);
  const auto at = problem.position("gain");
  const std::vector<double> gain = at ? numerics::to_doubles(arguments[*at]) : std::vector<double>(x.size(), 1.0);
  ReferenceOutput y;
  double top = -1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double product = alpha * gain[i] * x[i], value = product + beta;
    y.value.push_back(value);
    y.allowed.push_back(0x1p-24 * (2 * std::abs(product) + std::abs(value)) + 0x1p-148);
    // A rounding of each product and of the sum.
    const double of_product = numerics::ulp(DType::kF32, product), of_sum = numerics::ulp(DType::kF32, value);
    y.ideal_square.push_back((2 * square(of_product) + square(of_sum)) / 12);
    const bool larger = top < 0 || std::abs(x[i]) > std::abs(x[static_cast<std::size_t>(top)]);
    if (!std::isnan(x[i]) && larger) top = static_cast<double>(i);
  }
  std::vector<ReferenceOutput> outputs = {std::move(y)};
  if (problem.position("top")) outputs.push_back({{top}, {}, {}, {}});
  return outputs;
}

// Work per element is so small that the cheap check is the whole one.
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t) {
  return spot_check_by_reference(problem, arguments, reference);
}

}  // namespace ridge::ops::scale
