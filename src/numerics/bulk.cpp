#include "numerics/bulk.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "numerics/codec.h"
#include "numerics/cpu_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ridge::numerics::bulk {
namespace {

template <DType kDType>
using Code = std::conditional_t<kDType == DType::kF16 || kDType == DType::kBf16, std::uint16_t, std::uint8_t>;

// Branch-free, in 32-bit lanes, so that the compiler turns the loop below into full vectors.
template <DType kDType, bool kSaturate>
[[gnu::always_inline]] inline std::uint32_t encode_bits(float value) {
  constexpr FloatFormat kFormat = format_of(kDType);
  constexpr int kDrop = 23 - kFormat.mantissa_bits;
  constexpr auto kMax = static_cast<std::uint32_t>(kFormat.max_code);
  constexpr auto kNan = static_cast<std::uint32_t>(kFormat.nan_code);
  constexpr auto kSign = static_cast<std::uint32_t>(kFormat.sign_bit());
  constexpr bool kHasInfinity = kFormat.infinity_code != 0;
  constexpr std::uint32_t kOverflow = kSaturate || kNan == 0 ? kMax
                                      : kHasInfinity         ? static_cast<std::uint32_t>(kFormat.infinity_code)
                                                             : kNan;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t sign = (bits >> 31) * kSign;
  // Normal numbers: add half an ulp (less one if the last kept bit is 0: ties go to even), drop the bits, rebias.
  const std::uint32_t rounded = magnitude + ((1U << (kDrop - 1)) - 1) + ((magnitude >> kDrop) & 1U);
  std::uint32_t code = (rounded >> kDrop) - (static_cast<std::uint32_t>(127 - kFormat.bias) << kFormat.mantissa_bits);
  if constexpr (kFormat.bias != 127) {
    // Subnormals: adding 2^(23 + exponent of the subnormal unit) lets the adder round to a multiple of that unit.
    constexpr auto kUnit = static_cast<std::uint32_t>(kFormat.min_exponent() - kFormat.mantissa_bits + 23 + 127) << 23;
    const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kUnit);
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - kUnit;
    constexpr auto kMinNormal = static_cast<std::uint32_t>(kFormat.min_exponent() + 127) << 23;
    // By bits: of a choice GCC 12 makes a jump, which keeps the loop scalar without masks (AVX2).
    const std::uint32_t below = 0U - static_cast<std::uint32_t>(magnitude < kMinNormal);
    code = (subnormal & below) | (code & ~below);
  }
  if constexpr (!kSaturate && kNan == kMax + 1 && kFormat.negative_zero && !kHasInfinity) {
    return sign |
           std::min(code, kNan);  // what is beyond, infinities and NaN have the largest codes of all, and become NaN
  }
  const bool nan = magnitude > 0x7f800000U;
  code = code > kMax || magnitude == 0x7f800000U ? kOverflow : code;
  if constexpr (!kFormat.negative_zero) {
    const std::uint32_t with_sign = code == 0 || code == kNan ? code : code | sign;
    return nan ? kNan : with_sign;
  } else if constexpr (kNan == 0) {
    return nan ? kMax : code | sign;
  } else if constexpr (kHasInfinity && kFormat.mantissa_bits > 2) {
    const std::uint32_t payload = (magnitude >> kDrop) & ((1U << kFormat.mantissa_bits) - 1);
    return sign | (nan ? kNan | payload : code);
  } else {
    return sign | (nan ? kNan : code);
  }
}

template <DType kDType, bool kSaturate>
[[gnu::always_inline]] inline void encode_loop(const float* __restrict in, Code<kDType>* __restrict out,
                                               std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Code<kDType>>(encode_bits<kDType, kSaturate>(in[i]));
}

[[gnu::always_inline]] inline void decode_bf16_loop(const std::uint16_t* __restrict in, float* __restrict out,
                                                    std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(in[i]) << 16);
}

void decode_f16_portable(const std::uint16_t* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(codec::decode_double(DType::kF16, in[i]));
}

#if defined(__x86_64__)
template <DType kDType, bool kSaturate>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,f16c,prefer-vector-width=512")]] void encode_avx512(const float* in,
                                                                                                      Code<kDType>* out,
                                                                                                      std::int64_t n) {
  encode_loop<kDType, kSaturate>(in, out, n);
}
template <DType kDType, bool kSaturate>
[[gnu::target("avx2,fma,f16c")]] void encode_avx2(const float* in, Code<kDType>* out, std::int64_t n) {
  encode_loop<kDType, kSaturate>(in, out, n);
}
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,f16c,prefer-vector-width=512")]] void decode_bf16_avx512(
    const std::uint16_t* in, float* out, std::int64_t n) {
  decode_bf16_loop(in, out, n);
}
[[gnu::target("avx2,fma,f16c")]] void decode_bf16_avx2(const std::uint16_t* in, float* out, std::int64_t n) {
  decode_bf16_loop(in, out, n);
}
// F16C serves AVX2 and AVX-512 alike: both are limited by memory here.
[[gnu::target("avx2,fma,f16c")]] void decode_f16_f16c(const std::uint16_t* in, float* out, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(codes));
  }
  decode_f16_portable(in + i, out + i, n - i);
}
#endif

template <DType kDType, bool kSaturate>
void encode_as(const float* in, void* out, std::int64_t n) {
  auto* codes = static_cast<Code<kDType>*>(out);
#if defined(__x86_64__)
  if (best_isa() == Isa::kAvx512) return encode_avx512<kDType, kSaturate>(in, codes, n);
  if (best_isa() == Isa::kAvx2) return encode_avx2<kDType, kSaturate>(in, codes, n);
#endif
  encode_loop<kDType, kSaturate>(in, codes, n);
}

template <DType kDType>
void encode_either(const float* in, void* out, std::int64_t n, bool saturate) {
  return saturate ? encode_as<kDType, true>(in, out, n) : encode_as<kDType, false>(in, out, n);
}

}  // namespace

void encode(DType dtype, const float* in, void* out, std::int64_t n, bool saturate) {
  switch (dtype) {
    case DType::kF16: return encode_either<DType::kF16>(in, out, n, saturate);
    case DType::kBf16: return encode_either<DType::kBf16>(in, out, n, saturate);
    case DType::kE4m3fn: return encode_either<DType::kE4m3fn>(in, out, n, saturate);
    case DType::kE5m2: return encode_either<DType::kE5m2>(in, out, n, saturate);
    case DType::kE4m3fnuz: return encode_either<DType::kE4m3fnuz>(in, out, n, saturate);
    case DType::kE5m2fnuz: return encode_either<DType::kE5m2fnuz>(in, out, n, saturate);
    case DType::kE2m1: return encode_either<DType::kE2m1>(in, out, n, saturate);
    case DType::kF64:
    case DType::kF32:
    case DType::kE8m0:
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
    case DType::kU64: break;
  }
}

void decode_f16(const std::uint16_t* in, float* out, std::int64_t n) {
#if defined(__x86_64__)
  if (best_isa() != Isa::kPortable) return decode_f16_f16c(in, out, n);
#endif
  decode_f16_portable(in, out, n);
}

void decode_bf16(const std::uint16_t* in, float* out, std::int64_t n) {
#if defined(__x86_64__)
  if (best_isa() == Isa::kAvx512) return decode_bf16_avx512(in, out, n);
  if (best_isa() == Isa::kAvx2) return decode_bf16_avx2(in, out, n);
#endif
  decode_bf16_loop(in, out, n);
}

const char* isa() {
  switch (best_isa()) {
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx2: return "avx2";
    case Isa::kPortable: return "portable";
  }
  return "portable";
}

}  // namespace ridge::numerics::bulk
