// All gradients from one read of every element (cuda_activation_backward.cu). Any stride and alignment; slower where
// rows start at different places between multiples of 16 bytes.
#include "ops/activation/backward/backward.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::activation_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/activation/backward/cuda_activation_backward.cu");
  return described;
}

}  // namespace

Implementation cuda_activation_backward() {
  return configured_cuda_kernel("cuda_activation_backward",
                                "all gradients from one read, in chunks of 16 bytes; sums of rows by teams of threads",
                                kernel, no_bf16_conversions);
}

}  // namespace ridge::ops::activation_backward
