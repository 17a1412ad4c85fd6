// Sixteen fp32 values in a register of AVX-512, as tile.h wants them; for files that are compiled with those
// instructions alone.
#pragma once

#include <immintrin.h>

#include "ops/matmul/simd/kernels.h"
#include "ops/matmul/simd/transpose_avx512.h"

namespace ridge::ops::matmul::simd {
namespace {

template <Element E>
struct StoredAs {
  using Type = std::uint16_t;
};
template <>
struct StoredAs<kF32> {
  using Type = float;
};

struct Avx512 {
  static constexpr int kLanes = 16, kRows = 14, kDepth = 1;
  using Reg = __m512;
  template <Element E>
  using Stored = typename StoredAs<E>::Type;

  static __mmask16 mask(int count) { return static_cast<__mmask16>((1u << count) - 1u); }
  static Reg zero() { return _mm512_setzero_ps(); }
  static Reg load(const float* p) { return _mm512_loadu_ps(p); }
  static Reg load_part(const float* p, int count) { return _mm512_maskz_loadu_ps(mask(count), p); }
  static void store(float* p, Reg r) { _mm512_storeu_ps(p, r); }
  static void store_part(float* p, Reg r, int count) { _mm512_mask_storeu_ps(p, mask(count), r); }
  static Reg broadcast(const float* p) { return _mm512_set1_ps(*p); }
  static Reg fma(Reg x, Reg y, Reg z) { return _mm512_fmadd_ps(x, y, z); }
  static Reg add(Reg x, Reg y) { return _mm512_add_ps(x, y); }
  template <Element E>
  static Reg widen(__m256i codes) {
    if constexpr (E == kBf16) {
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 16));
    } else {
      return _mm512_cvtph_ps(codes);
    }
  }
  template <Element E>
  static Reg load_as(const Stored<E>* p) {
    if constexpr (E == kF32) {
      return load(p);
    } else {
      return widen<E>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
  }
  template <Element E>
  static Reg load_part_as(const Stored<E>* p, int count) {
    if constexpr (E == kF32) {
      return load_part(p, count);
    } else {
      return widen<E>(_mm256_maskz_loadu_epi16(mask(count), p));
    }
  }
  template <Element E>
  static Reg widen_as(const std::uint16_t* p, int count) {
    return load_part_as<E>(p, count);  // also for pairs along k, which load their steps otherwise
  }
  // To nearest even; a NaN stays one.
  template <Element E>
  static __m256i narrow(Reg r) {
    if constexpr (E == kF16) {
      return _mm512_cvtps_ph(r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    } else {
      const __m512i bits = _mm512_castps_si512(r), high = _mm512_srli_epi32(bits, 16);
      const __m512i half = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), _mm512_and_si512(high, _mm512_set1_epi32(1)));
      const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
      const __mmask16 nan = _mm512_cmp_ps_mask(r, r, _CMP_UNORD_Q);
      return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40)));
    }
  }
  template <Element E>
  static void narrow_as(std::uint16_t* p, Reg r, int count) {
    _mm256_mask_storeu_epi16(p, mask(count), narrow<E>(r));
  }
  static void transpose(Reg (&r)[kLanes]) { transpose_16(r); }
};

}  // namespace
}  // namespace ridge::ops::matmul::simd
