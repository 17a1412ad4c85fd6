// Heads through registers, from what arrives to what leaves; the weights' gradients in registers for all tokens of a
// block (cuda_rope_norm_backward.cu). Any stride and alignment.
#include "ops/cuda/cuda_kernel.h"
#include "ops/rope/norm/backward/backward.h"

namespace ridge::ops::rope_norm_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/rope/norm/backward/cuda_rope_norm_backward.cu");
  return described;
}

}  // namespace

Implementation cuda_rope_norm_backward() {
  return configured_cuda_kernel(
      "cuda_rope_norm_backward",
      "q and k in one launch, read once; the weights' gradients as partial sums in their order", kernel,
      no_bf16_conversions);
}

}  // namespace ridge::ops::rope_norm_backward
