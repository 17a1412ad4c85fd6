// Hopper's matrix unit of 8-bit floats on the host. Shares nothing with what bounds its sums
// (ops/matmul/matrix_unit.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ridge::testing {

// Codes below the smallest normal one have its exponent in their field.
inline constexpr double kLeastNormal = 0x1p-6;
inline double lifted(double code) {
  return code == 0 ? 0 : std::copysign(std::max(std::abs(code), kLeastNormal), code);
}

// Integer arithmetic on 14 bits: every addend is an integer number of units of 2^-13 of the largest one's power of two,
// which is told by the fields of exponents.
inline double step_of_unit(double partial, const double* a, const double* b, std::int64_t terms) {
  int exponent = partial == 0 ? std::numeric_limits<int>::min() : std::ilogb(partial);
  for (std::int64_t p = 0; p < terms; ++p) {
    if (a[p] * b[p] != 0) exponent = std::max(exponent, std::ilogb(lifted(a[p]) * lifted(b[p])));
  }
  if (exponent == std::numeric_limits<int>::min()) return 0;
  const auto units = [&](double x) { return static_cast<std::int64_t>(std::ldexp(x, 13 - exponent)); };
  std::int64_t sum = units(partial);
  for (std::int64_t p = 0; p < terms; ++p) sum += units(a[p] * b[p]);
  return static_cast<double>(static_cast<float>(std::ldexp(static_cast<double>(sum), exponent - 13)));
}

}  // namespace ridge::testing
