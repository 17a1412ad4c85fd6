// The scalar encoder and decoder that define what every faster path must reproduce. Internal to numerics.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "numerics/convert.h"
#include "numerics/format.h"
#include "numerics/philox.h"

namespace ridge::numerics::codec {

inline double decode_integer(DType dtype, std::uint64_t code) {
  if (dtype == DType::kI32) return static_cast<std::int32_t>(static_cast<std::uint32_t>(code));
  return dtype == DType::kI64 ? static_cast<double>(static_cast<std::int64_t>(code)) : static_cast<double>(code);
}

// The nearest whole number, ties to even; the ends of the range beyond it, and 0 for NaN.
inline std::uint64_t encode_integer(DType dtype, double value) {
  const double nearest = std::isnan(value) ? 0.0 : std::nearbyint(value);
  switch (dtype) {
    case DType::kI32:
      return static_cast<std::uint32_t>(static_cast<std::int32_t>(std::clamp(nearest, -0x1p31, 0x1p31 - 1)));
    case DType::kU8: return static_cast<std::uint64_t>(std::clamp(nearest, 0.0, 255.0));
    case DType::kI64:
      if (nearest >= 0x1p63) return ~std::uint64_t{0} >> 1;
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(std::max(nearest, -0x1p63)));
    default: return nearest >= 0x1p64 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(std::max(nearest, 0.0));
  }
}

inline double decode_double(DType dtype, std::uint64_t code) {
  if (dtype == DType::kF64) return std::bit_cast<double>(code);
  if (is_integer(dtype)) return decode_integer(dtype, code);
  const FloatFormat format = format_of(dtype);
  constexpr std::uint64_t kDoubleNan = 0x7ff8000000000000;
  if (dtype == DType::kE8m0) {
    return std::bit_cast<double>(code == format.nan_code ? kDoubleNan : (code + 1023 - 127) << 52);
  }
  if (!format.negative_zero && code == format.nan_code) return std::bit_cast<double>(kDoubleNan);
  const std::uint64_t sign = (code & format.sign_bit()) != 0 ? std::uint64_t{1} << 63 : 0;
  const std::uint64_t magnitude = code & (format.sign_bit() - 1);
  const auto m = static_cast<std::uint64_t>(format.mantissa_bits);
  if (magnitude > format.max_code) {
    const bool infinite = format.infinity_code != 0 && magnitude == format.infinity_code;
    const std::uint64_t payload = (magnitude & ((std::uint64_t{1} << m) - 1)) << (52 - m);
    return std::bit_cast<double>(sign | (infinite ? 0x7ff0000000000000 : kDoubleNan | payload));
  }
  const std::uint64_t exponent = magnitude >> m;
  const std::uint64_t mantissa = magnitude & ((std::uint64_t{1} << m) - 1);
  const auto shifted_bias = static_cast<std::uint64_t>(1023 - format.bias);
  if (exponent != 0) return std::bit_cast<double>(sign | ((exponent + shifted_bias) << 52) | (mantissa << (52 - m)));
  // Subnormal: mantissa * 2^(min_exponent - m), an exact product because both factors are normal doubles.
  const std::uint64_t unit = (shifted_bias + 1 - m) << 52;
  const double value = static_cast<double>(mantissa) * std::bit_cast<double>(unit);
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) | sign);
}

// The bits of a float or a double, taken apart.
template <class Float>
struct Parts;
template <>
struct Parts<double> {
  using Bits = std::uint64_t;
  static constexpr int kMantissa = 52, kBias = 1023;
};
template <>
struct Parts<float> {
  using Bits = std::uint32_t;
  static constexpr int kMantissa = 23, kBias = 127;
};

// significand / 2^shift as an integer, rounded; `random` is the stochastic draw.
inline std::uint64_t round_shift(std::uint64_t significand, int shift, bool stochastic, std::uint32_t random) {
  // Beyond 62 the quotient is 0 and the remainder below one half whatever the shift.
  const int bounded = std::min(shift, 62);
  const std::uint64_t quotient = significand >> bounded;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << bounded) - 1);
  if (stochastic) {
    const std::uint64_t fraction = shift < 32 ? rest << (32 - shift) : shift < 96 ? rest >> (shift - 32) : 0;
    return quotient + ((fraction + random) >> 32);
  }
  const std::uint64_t half = (std::uint64_t{1} << bounded) >> 1;
  return quotient + ((rest > half || (rest == half && rest != 0 && (quotient & 1) != 0)) ? 1 : 0);
}

inline std::uint64_t encode_scale(double value, const Rounding& rounding, std::uint32_t random) {
  constexpr std::uint64_t kNan = 0xff, kMax = 0xfe;
  if (value != value || value < 0) return kNan;
  if (value < 0x1p-127) return 0;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  std::uint64_t code = (bits >> 52) - (1023 - 127);  // of an infinity: far above kMax
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 51;
  if (rounding.mode == RoundMode::kStochastic) {
    code += ((fraction >> 20) + random) >> 32;
  } else if (rounding.scale == ScaleRounding::kCeil) {
    code += fraction != 0 ? 1 : 0;
  } else if (rounding.scale == ScaleRounding::kEven) {
    code += fraction >= kHalf ? 1 : 0;
  }
  if (code > kMax) return rounding.saturate ? kMax : kNan;
  return code;
}

// The code of `value` in a format narrower than Float (or the same width: then it is exact up to NaN quieting).
template <class Float>
std::uint64_t encode(const FloatFormat& format, Float value, bool saturate, bool stochastic, std::uint32_t random) {
  using Bits = typename Parts<Float>::Bits;
  constexpr int kM = Parts<Float>::kMantissa;
  const Bits bits = std::bit_cast<Bits>(value);
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  const std::uint64_t sign = (bits & kSign) != 0 ? format.sign_bit() : 0;
  const Bits magnitude = bits & (kSign - 1);
  constexpr Bits kInfinity = static_cast<Bits>(Bits{2 * Parts<Float>::kBias + 1} << kM);
  if (magnitude > kInfinity) {
    if (!format.negative_zero) return format.nan_code;
    if (format.nan_code == 0) return format.max_code;
    const std::uint64_t payload_mask = (std::uint64_t{1} << format.mantissa_bits) - 1;
    const std::uint64_t payload = format.infinity_code != 0 && format.mantissa_bits > 2
                                      ? (magnitude >> (kM - format.mantissa_bits)) & payload_mask
                                      : 0;
    return sign | format.nan_code | payload;
  }
  const bool saturates = saturate || format.nan_code == 0;
  const std::uint64_t overflow = saturates                   ? sign | format.max_code
                                 : format.infinity_code != 0 ? sign | format.infinity_code
                                 : format.negative_zero      ? sign | format.nan_code
                                                             : format.nan_code;
  if (magnitude == kInfinity) return overflow;
  const int stored_exponent = static_cast<int>(magnitude >> kM);
  const Bits fraction = magnitude & ((Bits{1} << kM) - 1);
  const std::uint64_t significand = fraction | (stored_exponent != 0 ? std::uint64_t{1} << kM : 0);
  const int exponent = std::max(stored_exponent, 1) - Parts<Float>::kBias;
  const int below_normal = std::max(format.min_exponent() - exponent, 0);
  // In the target's normal range the significand's leading one adds 1 to the exponent field, hence the "- 1"; in its
  // subnormal range the field is 0 and a carry out of the mantissa gives the smallest normal number by itself.
  const std::uint64_t rounded = round_shift(significand, kM - format.mantissa_bits + below_normal, stochastic, random);
  const auto exponent_field = static_cast<std::uint64_t>(std::max(exponent + format.bias - 1, 0));
  const std::uint64_t code = (exponent_field << format.mantissa_bits) + rounded;
  if (code > format.max_code) return overflow;
  return code == 0 && !format.negative_zero ? 0 : sign | code;
}

template <class Float>
std::uint64_t encode(DType dtype, Float value, const Rounding& rounding, std::uint32_t random) {
  if (dtype == DType::kF64) return std::bit_cast<std::uint64_t>(static_cast<double>(value));
  if (is_integer(dtype)) return encode_integer(dtype, static_cast<double>(value));
  if (dtype == DType::kE8m0) return encode_scale(static_cast<double>(value), rounding, random);
  const bool stochastic = rounding.mode == RoundMode::kStochastic && dtype != DType::kF32;
  return encode(format_of(dtype), value, rounding.saturate, stochastic, random);
}

}  // namespace ridge::numerics::codec
