// Heads of q and k straight through registers, from their squares to the turned elements (cuda_rope_norm.cu). Any
// stride and alignment.
#include "ops/cuda/cuda_kernel.h"
#include "ops/rope/norm/norm.h"

namespace ridge::ops::rope_norm {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/rope/norm/cuda_rope_norm.cu");
  return described;
}

}  // namespace

Implementation cuda_rope_norm() {
  return configured_cuda_kernel("cuda_rope_norm", "q and k in one launch; a head's threads add up its squares", kernel,
                                no_bf16_conversions);
}

}  // namespace ridge::ops::rope_norm
