// Dot products of bf16 pairs (AVX512-BF16): the tiles of kernels_avx512.cpp, in which a value is a pair along k.
#include "ops/matmul/simd/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512BF16__)
#include "ops/matmul/simd/tile.h"
#include "ops/matmul/simd/vec_avx512.h"

namespace ridge::ops::matmul::simd {
namespace {

struct Bf16Pairs : Avx512 {
  static constexpr int kDepth = 2;

  // Two products and two additions, to nearest even; subnormal numbers count as zero, going in and coming out.
  static Reg fma(Reg x, Reg y, Reg z) {
    return _mm512_dpbf16_ps(z, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(y));
  }
  template <Element E>
  static Reg load_as(const std::uint16_t* p) {
    return _mm512_castsi512_ps(_mm512_loadu_si512(p));
  }
  template <Element E>
  static Reg load_part_as(const std::uint16_t* p, int count) {
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16((__mmask32{1} << count) - 1u, p));
  }
  // By one instruction, for which subnormal numbers are zero, too.
  template <Element E>
  static void narrow_as(std::uint16_t* p, Reg r, int count) {
    if constexpr (E == kBf16) {
      _mm256_mask_storeu_epi16(p, mask(count), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(r)));
    } else {
      Avx512::narrow_as<E>(p, r, count);
    }
  }
  static Reg pair(const std::uint16_t* p, const std::uint16_t* q, int count) {
    const __mmask16 some = count < kLanes ? mask(count) : static_cast<__mmask16>(0xffff);
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, p));
    if (q == nullptr) return _mm512_castsi512_ps(low);
    const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, q));
    return _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
};

constexpr KernelSet make_set() {
  KernelSet set = make_kernels<Bf16Pairs, 2>("avx512_bf16");
  set.across[kBf16] = &one_row_across<Avx512, kBf16>;  // pairs do not lie together there
  return set;
}

}  // namespace

const KernelSet* bf16dot_kernels() {
  static constexpr KernelSet kSet = make_set();
  return &kSet;
}

}  // namespace ridge::ops::matmul::simd
#else
namespace ridge::ops::matmul::simd {
const KernelSet* bf16dot_kernels() { return nullptr; }
}  // namespace ridge::ops::matmul::simd
#endif
