#include "numerics/format.h"

#include <algorithm>
#include <cmath>

#include "numerics/convert.h"

namespace ridge::numerics {

double max_value(DType dtype) { return decode(dtype, format_of(dtype).max_code); }

double min_normal(DType dtype) {
  if (dtype == DType::kE8m0) return std::ldexp(1.0, -127);
  return std::ldexp(1.0, format_of(dtype).min_exponent());
}

double min_positive(DType dtype) {
  if (dtype == DType::kE8m0) return std::ldexp(1.0, -127);
  return std::ldexp(1.0, format_of(dtype).min_exponent() - format_of(dtype).mantissa_bits);
}

double ulp(DType dtype, double x) {
  const FloatFormat format = format_of(dtype);
  const double magnitude = std::isnan(x) ? 0.0 : std::min(std::fabs(x), max_value(dtype));
  const int lowest = dtype == DType::kE8m0 ? -127 : format.min_exponent();
  const int exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), lowest) : lowest;
  return std::ldexp(1.0, exponent - format.mantissa_bits);
}

}  // namespace ridge::numerics
