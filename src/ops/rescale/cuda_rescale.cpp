// Blocks that stay, each with a piece of a row at a time (cuda_rescale.cu).
#include "ops/cuda/cuda_kernel.h"
#include "ops/rescale/rescale.h"

namespace ridge::ops::rescale {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/rescale/cuda_rescale.cu");
  return described;
}

}  // namespace

Implementation cuda_rescale() {
  return configured_cuda_kernel("cuda_rescale", "pieces of rows by blocks that stay; a factor of 1 ends them at once",
                                kernel, no_bf16_conversions);
}

}  // namespace ridge::ops::rescale
