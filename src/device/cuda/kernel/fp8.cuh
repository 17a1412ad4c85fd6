// 8-bit floats and their scales: conversions of pairs, powers of two as E8M0, and the random words of stochastic
// rounding.
#pragma once
#include "ptx.cuh"

namespace ridge::cuda {

enum class Fp8 { kE4m3, kE5m2 };

inline constexpr u32 kInfinityBits = 0x7F800000u;  // of fp32: magnitudes from here on are not finite

template <Fp8 kFormat>
struct Fp8Range {
  static constexpr float kMost = kFormat == Fp8::kE4m3 ? 448.0f : 57344.0f;  // both 1.75 times a power of two
  static constexpr int kMostExponent = kFormat == Fp8::kE4m3 ? 8 : 15;
  static constexpr int kLeastExponent = kFormat == Fp8::kE4m3 ? -6 : -14;  // of normal numbers
  static constexpr int kMantissa = kFormat == Fp8::kE4m3 ? 3 : 2;
  static constexpr u32 kInfinity = kFormat == Fp8::kE4m3 ? 0x7Fu : 0x7Cu;  // E4M3 has none: NaN
};

// Two codes, `low` in the lower byte: nearest even, saturating. NaN stays NaN, but an infinity becomes the largest
// number: the conversion has no other way.
template <Fp8 kFormat>
__device__ __forceinline__ u32 encode_pair(float low, float high) {
  u16 codes;
  if constexpr (kFormat == Fp8::kE4m3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  }
  return codes;
}

// Four codes, the first in the lowest byte. In one piece, so that the second conversion puts its pair above the first.
template <Fp8 kFormat>
__device__ __forceinline__ u32 encode_four(float a, float b, float c, float d) {
  u32 codes;
  if constexpr (kFormat == Fp8::kE4m3) {
    asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\ncvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
        "mov.b32 %0, {low, high};\n}"
        : "=r"(codes)
        : "f"(a), "f"(b), "f"(c), "f"(d));
  } else {
    asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite.e5m2x2.f32 low, %2, %1;\ncvt.rn.satfinite.e5m2x2.f32 high, %4, %3;\n"
        "mov.b32 %0, {low, high};\n}"
        : "=r"(codes)
        : "f"(a), "f"(b), "f"(c), "f"(d));
  }
  return codes;
}

// Both are exact in fp16.
template <Fp8 kFormat>
__device__ __forceinline__ void decode_pair(u16 codes, float& low, float& high) {
  u32 halves;
  if constexpr (kFormat == Fp8::kE4m3) {
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
  } else {
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(codes));
  }
  low = half_to_float(static_cast<u16>(halves));
  high = half_to_float(static_cast<u16>(halves >> 16));
}

// E8M0: 2^(code - 127); 255 is NaN. 2^-127 is a subnormal float.
__device__ __forceinline__ float power_of_two(u8 code) {
  if (code == 255) return __uint_as_float(0x7FC00000u);
  return __uint_as_float(code == 0 ? 0x00400000u : static_cast<u32>(code) << 23);
}

// Philox4x32-10 (Salmon et al., SC 2011): word w of the stream `seed` is word w % 4 of block w / 4.
struct PhiloxBlock {
  u32 words[4];
};
__device__ __forceinline__ PhiloxBlock philox_block(u64 seed, u64 block) {
  u32 c0 = static_cast<u32>(block), c1 = static_cast<u32>(block >> 32), c2 = 0, c3 = 0;
  u32 k0 = static_cast<u32>(seed), k1 = static_cast<u32>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u32 high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const u32 high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace ridge::cuda
