#include <cmath>

#include "numerics/convert.h"
#include "numerics/format.h"
#include "scale/backward/backward.h"

namespace ridge::ops::scale_backward {
namespace {

// alpha * factor * dy, with a rounding for each product.
ReferenceOutput product(double alpha, const std::vector<double>& factor, const std::vector<double>& dy) {
  ReferenceOutput output;
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const double value = alpha * factor[i] * dy[i], step = numerics::ulp(DType::kF32, value);
    output.value.push_back(value);
    output.allowed.push_back(2 * 0x1p-24 * (1 + 0x1p-20) * std::abs(value) + 0x1p-148);
    output.ideal_square.push_back(2 * step * step / 12);
  }
  return output;
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  const double alpha = static_cast<float>(problem.real(kAlpha));
  const std::vector<double> dy = numerics::to_doubles(arguments[0]);
  const auto values = [&](const char* name) {
    const auto at = problem.position(name);
    return at ? numerics::to_doubles(arguments[*at]) : std::vector<double>(dy.size(), 1.0);
  };
  std::vector<ReferenceOutput> outputs;
  if (problem.position("dx")) outputs.push_back(product(alpha, values("gain"), dy));
  if (problem.position("dgain")) outputs.push_back(product(alpha, values("x"), dy));
  return outputs;
}

}  // namespace ridge::ops::scale_backward
