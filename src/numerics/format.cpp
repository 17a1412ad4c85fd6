#include "numerics/format.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "numerics/convert.h"

namespace ridge::numerics {

double max_value(DType dtype) {
  switch (dtype) {
    case DType::kI32: return 0x1p31 - 1;
    case DType::kI64: return 0x1p63;  // less one, which no double holds
    case DType::kU8: return 255;
    case DType::kU64: return 0x1p64;
    default: return decode(dtype, format_of(dtype).max_code);
  }
}

namespace {

// By their bits: a reference asks for the spacing at every element, twice.
double power_of_two(int exponent) {
  if (exponent < -1022) return std::ldexp(1.0, exponent);
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

int exponent_of(double magnitude) {
  const auto biased = static_cast<int>(std::bit_cast<std::uint64_t>(magnitude) >> 52);
  return biased != 0 ? biased - 1023 : std::ilogb(magnitude);
}

}  // namespace

double min_normal(DType dtype) {
  if (is_integer(dtype)) return 1;
  if (dtype == DType::kE8m0) return power_of_two(-127);
  return power_of_two(format_of(dtype).min_exponent());
}

double min_positive(DType dtype) {
  if (is_integer(dtype)) return 1;
  if (dtype == DType::kE8m0) return power_of_two(-127);
  return power_of_two(format_of(dtype).min_exponent() - format_of(dtype).mantissa_bits);
}

double ulp(DType dtype, double x) {
  if (is_integer(dtype)) return 1;
  const FloatFormat format = format_of(dtype);
  const double magnitude = std::isnan(x) ? 0.0 : std::min(std::fabs(x), max_value(dtype));
  const int lowest = dtype == DType::kE8m0 ? -127 : format.min_exponent();
  const int exponent = magnitude > 0 ? std::max(exponent_of(magnitude), lowest) : lowest;
  return power_of_two(exponent - format.mantissa_bits);
}

}  // namespace ridge::numerics
