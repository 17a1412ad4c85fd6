// AVX2 with FMA: 6 x 16 tiles, 12 sums in the 16 registers.
#include "ops/matmul/simd/kernels.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

#include <cstring>

#include "ops/matmul/simd/tile.h"

namespace ridge::ops::matmul::simd {
namespace avx2 {

template <Element E>
struct StoredAs {
  using Type = std::uint16_t;
};
template <>
struct StoredAs<kF32> {
  using Type = float;
};

struct Vec {
  static constexpr int kLanes = 8, kRows = 6, kDepth = 1;
  using Reg = __m256;
  template <Element E>
  using Stored = typename StoredAs<E>::Type;

  static __m256i mask(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Reg zero() { return _mm256_setzero_ps(); }
  static Reg load(const float* p) { return _mm256_loadu_ps(p); }
  static Reg load_part(const float* p, int count) { return _mm256_maskload_ps(p, mask(count)); }
  static void store(float* p, Reg r) { _mm256_storeu_ps(p, r); }
  static void store_part(float* p, Reg r, int count) { _mm256_maskstore_ps(p, mask(count), r); }
  static Reg broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  static Reg fma(Reg x, Reg y, Reg z) { return _mm256_fmadd_ps(x, y, z); }
  static Reg add(Reg x, Reg y) { return _mm256_add_ps(x, y); }
  template <Element E>
  static Reg widen(__m128i codes) {
    if constexpr (E == kBf16) {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16));
    } else {
      return _mm256_cvtph_ps(codes);
    }
  }
  template <Element E>
  static Reg load_as(const Stored<E>* p) {
    if constexpr (E == kF32) {
      return load(p);
    } else {
      return widen<E>(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
  }
  template <Element E>
  static Reg load_part_as(const Stored<E>* p, int count) {
    if constexpr (E == kF32) {
      return load_part(p, count);
    } else {
      alignas(16) std::uint16_t codes[kLanes] = {};
      for (int i = 0; i < count; ++i) codes[i] = p[i];
      return widen<E>(_mm_load_si128(reinterpret_cast<const __m128i*>(codes)));
    }
  }
  template <Element E>
  static Reg widen_as(const std::uint16_t* p, int count) {
    return count >= kLanes ? load_as<E>(p) : load_part_as<E>(p, count);
  }
  // To nearest even; a NaN stays one.
  template <Element E>
  static __m128i narrow(Reg r) {
    if constexpr (E == kF16) {
      return _mm256_cvtps_ph(r, _MM_FROUND_TO_NEAREST_INT);
    } else {
      const __m256i bits = _mm256_castps_si256(r), high = _mm256_srli_epi32(bits, 16);
      const __m256i half = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), _mm256_and_si256(high, _mm256_set1_epi32(1)));
      const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
      const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
      const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(r, r, _CMP_UNORD_Q));
      const __m256i codes = _mm256_blendv_epi8(rounded, quiet, nan);
      return _mm_packus_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
    }
  }
  template <Element E>
  static void narrow_as(std::uint16_t* p, Reg r, int count) {
    const __m128i codes = narrow<E>(r);
    if (count >= kLanes) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p), codes);
    } else {
      std::memcpy(p, &codes, static_cast<std::size_t>(count) * 2);
    }
  }
  static void transpose(Reg (&r)[kLanes]) {
    Reg u[kLanes], v[kLanes];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      u[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
      u[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      v[4 * i] = _mm256_shuffle_ps(u[4 * i], u[4 * i + 2], 0x44);
      v[4 * i + 1] = _mm256_shuffle_ps(u[4 * i], u[4 * i + 2], 0xee);
      v[4 * i + 2] = _mm256_shuffle_ps(u[4 * i + 1], u[4 * i + 3], 0x44);
      v[4 * i + 3] = _mm256_shuffle_ps(u[4 * i + 1], u[4 * i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      r[i] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x20);
      r[i + 4] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x31);
    }
  }
};

}  // namespace avx2

const KernelSet* avx2_kernels() {
  // Five eighths of a first-level cache of 32 KiB hold a panel of B, for which the tiles take turns.
  static constexpr KernelSet kSet = [] {
    KernelSet set = make_kernels<avx2::Vec, 2>("avx2");
    set.block = 320;
    return set;
  }();
  return &kSet;
}

}  // namespace ridge::ops::matmul::simd
#else
namespace ridge::ops::matmul::simd {
const KernelSet* avx2_kernels() { return nullptr; }
}  // namespace ridge::ops::matmul::simd
#endif
