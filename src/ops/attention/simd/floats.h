// Vectors of fp32 numbers as wide as the registers of the instruction set of the file that includes this: the compiler
// keeps wider ones in memory.
#pragma once

#include <cstdint>
#include <cstring>

namespace ridge::ops::attention {
namespace {

// The sums that stay in registers beside what they are made of: rows of kVectorsAtOnce vectors.
#ifdef __AVX512F__
inline constexpr int kLanes = 16, kRowsAtOnce = 4, kVectorsAtOnce = 4;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8, kRowsAtOnce = 4, kVectorsAtOnce = 2;
#else
inline constexpr int kLanes = 4, kRowsAtOnce = 2, kVectorsAtOnce = 4;
#endif

using Floats = float __attribute__((vector_size(4 * kLanes)));
using Ints = std::int32_t __attribute__((vector_size(4 * kLanes)));

inline __attribute__((always_inline)) void load(Floats& x, const float* from) { std::memcpy(&x, from, sizeof x); }
inline __attribute__((always_inline)) void store(float* to, const Floats& x) { std::memcpy(to, &x, sizeof x); }

// e^x for x <= 89 to about two units in the last place; 0 where that is below the normal numbers, infinity above 88.8,
// NaN for NaN.
inline __attribute__((always_inline)) void exponential(Floats& x) {
  const Floats scaled = x * 1.44269504f;
  const Floats whole = (scaled + 12582912.0f) - 12582912.0f;  // 1.5 * 2^23: rounds to an integer
  const Floats part = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
  Floats p = part * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * part + 8.3334519073e-3f;
  p = p * part + 4.1665795894e-2f;
  p = p * part + 1.6666665459e-1f;
  p = p * part + 5.0000001201e-1f;
  p = p * part * part + part + 1.0f;
  const Ints small = x < -87.33654f;
  const Floats bounded = small ? Floats{} : whole;  // a conversion of what does not fit is undefined
  const Ints valid = bounded == bounded;
  const Ints exponent = (__builtin_convertvector(valid ? bounded : Floats{}, Ints) + 127) << 23;
  Floats power;
  std::memcpy(&power, &exponent, sizeof power);
  x = small ? Floats{} : p * power;
}

// To a few units in the last place.
inline __attribute__((always_inline)) void hyperbolic_tangent(Floats& x) {
  const Floats size = x < 0.0f ? -x : x, square = x * x;
  Floats p = square * 2.18694885e-2f - 5.39682540e-2f;  // by its series, where 1 - e would lose digits
  p = p * square + 1.33333333e-1f;
  p = p * square - 3.33333333e-1f;
  const Floats near = p * square * x + x;
  Floats e = size * -2.0f;
  exponential(e);
  const Floats far = (1.0f - e) / (1.0f + e);
  x = size < 0.25f ? near : x < 0.0f ? -far : far;
}

// Takes a slope times the distance of `place` and each of the keys 0, 1, .. off their scores.
inline __attribute__((always_inline)) void take_off_distances(Floats& x, float slope, std::int64_t place) {
  for (std::int64_t i = 0; i < kLanes; ++i) x[i] -= slope * static_cast<float>(place < i ? i - place : place - i);
}

}  // namespace
}  // namespace ridge::ops::attention
