// The bit layout of each element type, in one table that conversion, ulp and the error model read.
#pragma once

#include <cstdint>

#include "ridge/dtype.h"

namespace ridge::numerics {

// value = (-1)^sign * 2^(exponent - bias) * 1.mantissa; exponent 0 is subnormal: 2^(1 - bias) * 0.mantissa.
// E8M0 has no sign, no mantissa, no zero and no subnormals: value = 2^(code - 127).
struct FloatFormat {
  int exponent_bits = 0;
  int mantissa_bits = 0;            // stored bits; the significand has one more
  int bias = 0;                     //
  std::uint64_t max_code = 0;       // largest finite magnitude
  std::uint64_t infinity_code = 0;  // 0: the format has no infinity
  std::uint64_t nan_code = 0;       // canonical (quiet) NaN without its sign; 0: the format has no NaN
  bool negative_zero = true;        // FNUZ uses that code for its NaN

  [[nodiscard]] constexpr int min_exponent() const { return 1 - bias; }  // of the smallest normal number
  [[nodiscard]] constexpr std::uint64_t sign_bit() const { return std::uint64_t{1} << (exponent_bits + mantissa_bits); }
};

constexpr FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::kF64: return {11, 52, 1023, 0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff8000000000000};
    case DType::kF32: return {8, 23, 127, 0x7f7fffff, 0x7f800000, 0x7fc00000};
    case DType::kF16: return {5, 10, 15, 0x7bff, 0x7c00, 0x7e00};
    case DType::kBf16: return {8, 7, 127, 0x7f7f, 0x7f80, 0x7fc0};
    case DType::kE4m3fn: return {4, 3, 7, 0x7e, 0, 0x7f};
    case DType::kE5m2: return {5, 2, 15, 0x7b, 0x7c, 0x7e};
    case DType::kE4m3fnuz: return {4, 3, 8, 0x7f, 0, 0x80, false};
    case DType::kE5m2fnuz: return {5, 2, 16, 0x7f, 0, 0x80, false};
    case DType::kE2m1: return {2, 1, 1, 0x7, 0, 0};
    case DType::kE8m0: return {8, 0, 127, 0xfe, 0, 0xff, false};
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
    case DType::kU64: break;  // no floating-point format
  }
  return {};
}

// Largest finite value: 448 for e4m3fn, 65504 for f16, 2^127 for e8m0, 255 for u8 (2^64 - 1 as a double has it).
double max_value(DType dtype);
// Smallest positive normal and subnormal values (equal for E8M0, which has no subnormals).
double min_normal(DType dtype);
double min_positive(DType dtype);
// Spacing of the format at |x|: 2^(max(floor(log2 |x|), min_exponent) - mantissa_bits). For E8M0 2^floor(log2 x).
// At and beyond the largest finite value it stays the spacing there; 0 and NaN give the smallest spacing. Of whole
// numbers it is 1.
double ulp(DType dtype, double x);

}  // namespace ridge::numerics
