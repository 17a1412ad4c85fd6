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
  static void transpose(Reg (&r)[kLanes]) { transpose_16(r); }
};

}  // namespace
}  // namespace ridge::ops::matmul::simd
