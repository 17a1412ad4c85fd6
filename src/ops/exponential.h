// Exponentials of one fp32 number without branches, of which a compiler makes vectors. For files that are compiled once
// for each instruction set: every one has functions of its own.
#pragma once

#include <cstdint>

namespace ridge::ops {
namespace {

// e^r of |r| <= ln(2) / 2, by the series up to r^7. Written out: a loop over the terms would keep a compiler from
// making vectors of the loop around it.
inline __attribute__((always_inline)) float exponential_series(float r) {
  float sum = 1.0F / 5040;
  sum = sum * r + 1.0F / 720;
  sum = sum * r + 1.0F / 120;
  sum = sum * r + 1.0F / 24;
  sum = sum * r + 1.0F / 6;
  sum = sum * r + 0.5F;
  sum = sum * r + 1.0F;
  return sum * r + 1.0F;
}

// e^x of x <= 0, 2 steps off: 2^n e^r, |r| <= ln(2) / 2. 2^n in two factors, as the result
// may lie below the normal numbers.
inline __attribute__((always_inline)) float power_of(float given) {
  constexpr float kShift = 0x1.8p23F;  // added to it, a number is rounded to a whole one in its last bits
  const float x = given < -150 ? -150 : given;
  const float shifted = x * 0x1.715476p0F + kShift, n = shifted - kShift;
  const float r = (x - n * 0x1.62e4p-1F) - n * 0x1.7f7d1cp-20F;
  const auto whole = __builtin_bit_cast(std::int32_t, shifted) - __builtin_bit_cast(std::int32_t, kShift);
  const std::int32_t half = whole >> 1;
  const auto bits = [](std::int32_t e) { return __builtin_bit_cast(float, (e + 127) << 23); };
  return exponential_series(r) * bits(half) * bits(whole - half);
}
// The same where what lies below the normal numbers may be 0, a third faster.
inline __attribute__((always_inline)) float normal_power_of(float x) {
  constexpr float kShift = 0x1.8p23F;
  const float shifted = x * 0x1.715476p0F + kShift, n = shifted - kShift;
  const float r = (x - n * 0x1.62e4p-1F) - n * 0x1.7f7d1cp-20F;
  // The last bits of `shifted` are n; those above leave with the shift.
  const std::int32_t bits = (__builtin_bit_cast(std::int32_t, shifted) + 127) << 23;
  const float power = exponential_series(r) * __builtin_bit_cast(float, bits);
  return x < -87.33654F ? 0.0F : power;
}
inline __attribute__((always_inline)) float size_of(float x) { return x < 0 ? -x : x; }

// s(x) and 1 - s(x), each with small relative error.
struct Sigmoid {
  float value, rest;
};
inline __attribute__((always_inline)) Sigmoid sigmoid_of(float x) {
  const float power = power_of(-size_of(x)), share = 1 / (1 + power), less = power * share;
  return {x < 0 ? less : share, x < 0 ? share : less};
}

}  // namespace
}  // namespace ridge::ops
