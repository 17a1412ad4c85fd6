// What pieces.h declares, for the instruction set of the file that includes this. Every function of one number is
// free of branches, so that a compiler makes vectors of the loops.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/route/simd/pieces.h"

namespace ridge::ops::route {
namespace {

// e^x of x <= 0 in fp64, about a step off: 2^n e^r, |r| <= ln(2) / 2, by the series up to r^13, whose rest is 2^-57.
// Below -200, where fp32 has 0, it is e^-200.
inline __attribute__((always_inline)) double power_of(double given) {
  constexpr double kShift = 0x1.8p52;  // added to it, a number is rounded to a whole one in its last bits
  const double x = given < -200 ? -200 : given;
  const double shifted = x * 0x1.71547652b82fep0 + kShift, n = shifted - kShift;
  // ln(2) in two parts; the first has so few bits that its product with n is exact.
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  double sum = 1.0 / 6227020800;
  sum = sum * r + 1.0 / 479001600;
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  // The last bits of `shifted` are n; those above leave with the shift.
  const std::uint64_t bits = (__builtin_bit_cast(std::uint64_t, shifted) + 1023) << 52;
  return sum * __builtin_bit_cast(double, bits);
}

float largest(const float* x, std::int64_t count) {
  float most[kLanes];
  for (float& one : most) one = -INFINITY;
  for (std::int64_t first = 0; first < count; first += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) most[j] = x[first + j] > most[j] ? x[first + j] : most[j];
  }
  for (std::int64_t j = 1; j < kLanes; ++j) most[0] = most[j] > most[0] ? most[j] : most[0];
  return most[0];
}

double powers(const float* x, float most, double* to, std::int64_t count) {
  double sums[kLanes] = {};
  for (std::int64_t first = 0; first < count; first += kLanes) {
    double terms[kLanes];
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const float one = x[first + j];
      const double power = power_of(static_cast<double>(one) - static_cast<double>(most));
      const double here = one == most ? 1.0 : power;
      terms[j] = one == one ? here : 0.0;
    }
    for (std::int64_t j = 0; j < kLanes; ++j) sums[j] += terms[j];
    for (std::int64_t j = 0; j < kLanes; ++j) to[first + j] = terms[j];
  }
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::int64_t j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return sums[0];
}

void sigmoids(const float* x, double* to, std::int64_t count) {
  for (std::int64_t first = 0; first < count; first += kLanes) {
    double terms[kLanes];
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const double one = x[first + j], size = one < 0 ? -one : one;
      const double power = power_of(-size), share = 1 / (1 + power);
      const double here = one < 0 ? power * share : share;
      terms[j] = one == one ? here : one;
    }
    for (std::int64_t j = 0; j < kLanes; ++j) to[first + j] = terms[j];
  }
}

constexpr Pieces kPieces{largest, powers, sigmoids};

}  // namespace
}  // namespace ridge::ops::route
