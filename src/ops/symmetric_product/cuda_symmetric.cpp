// Symmetric products on Hopper's matrix units (cuda_symmetric.cu).
#include "ops/cuda/cuda_kernel.h"
#include "ops/matmul/cuda/calls.h"
#include "ops/symmetric_product/symmetric_product.h"

namespace ridge::ops::symmetric_product {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/symmetric_product/cuda_symmetric.cu");
  return described;
}

// How many rounds the multiprocessors make of the triangle's tiles, of `side` rows and columns.
double rounds(const Shape& s, std::int64_t side) {
  constexpr std::int64_t kMultiprocessors = 132;
  const std::int64_t across = (s.n + side - 1) / side, tiles = s.batch * across * (across + 1) / 2;
  return static_cast<double>((tiles + kMultiprocessors - 1) / kMultiprocessors);
}

// Small tiles where larger ones leave multiprocessors idle in the last round. Tall tiles in pairs of blocks that share
// what they read where A does not stay in L2 and rounds are many: of few rounds a pair at the edge costs more than it
// shares. They take 0.82 to 0.90 of the time of square ones in pairs on an H100, and the same on an H200.
std::string_view prefers(const Problem& problem) {
  constexpr double kSmallTileTime = 0.34, kManyRounds = 8;  // a small tile's time of a large one's
  constexpr std::int64_t kOfL2Bytes = std::int64_t{32} << 20;
  const Shape s = shape_of(problem);
  if (rounds(s, 64) * kSmallTileTime < rounds(s, 128)) return "pp_64x64";
  return s.batch * s.n * s.k * 2 > kOfL2Bytes && rounds(s, 128) >= kManyRounds ? "coop_256x128_n2" : "pp_128x128";
}

}  // namespace

Implementation cuda_symmetric() {
  return configured_cuda_kernel("cuda_symmetric",
                                "own kernel on Hopper's matrix units: half of the tiles, each written twice", kernel,
                                matmul::no_wgmma, prefers);
}

}  // namespace ridge::ops::symmetric_product
