// AVX-512: 14 x 32 tiles, 28 sums, two vectors of B and one broadcast value of A in the 32 registers.
#include "ops/matmul/simd/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include "ops/matmul/simd/tile.h"
#include "ops/matmul/simd/vec_avx512.h"

namespace ridge::ops::matmul::simd {

const KernelSet* avx512_kernels() {
  static constexpr KernelSet kSet = make_kernels<Avx512, 2>("avx512");
  return &kSet;
}

}  // namespace ridge::ops::matmul::simd
#else
namespace ridge::ops::matmul::simd {
const KernelSet* avx512_kernels() { return nullptr; }
}  // namespace ridge::ops::matmul::simd
#endif
