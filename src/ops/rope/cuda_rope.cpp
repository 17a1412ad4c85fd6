// Heads of q and k straight through registers, 16 bytes at a time (cuda_rope.cu). Any stride and alignment.
#include "ops/cuda/cuda_kernel.h"
#include "ops/rope/rope.h"

namespace ridge::ops::rope {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/rope/cuda_rope.cu");
  return described;
}

}  // namespace

Implementation cuda_rope() {
  return configured_cuda_kernel("cuda_rope", "q and k in one launch, a row of the table for several heads at once",
                                kernel, no_bf16_conversions);
}

}  // namespace ridge::ops::rope
