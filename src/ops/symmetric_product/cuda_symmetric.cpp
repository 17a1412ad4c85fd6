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

Refusal no_wgmma(const DeviceInfo& device) {
  if (device.has("wgmma")) return std::nullopt;
  return matmul::no_wgmma(device);
}

// Not measured yet; by gemm's model of the same tiles. Small ones where larger ones leave multiprocessors idle, one
// block for each while all of A stays in L2, and blocks that share what they read beyond.
std::string_view prefers(const Problem& problem) {
  constexpr std::int64_t kMultiprocessors = 132, kOfL2Bytes = std::int64_t{32} << 20;
  const Shape s = shape_of(problem);
  const std::int64_t tiles = (s.n + 127) / 128;
  if (s.batch * tiles * (tiles + 1) / 2 < kMultiprocessors) return "pp_64x64";
  return s.n * s.k * 2 <= kOfL2Bytes ? "pp_128x128" : "coop_256x128_n2";
}

}  // namespace

Implementation cuda_symmetric() {
  return configured_cuda_kernel("cuda_symmetric",
                                "own kernel on Hopper's matrix units: half of the tiles, each written twice", kernel,
                                no_wgmma, prefers);
}

}  // namespace ridge::ops::symmetric_product
