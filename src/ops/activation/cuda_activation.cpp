// Every element from memory into registers and back (cuda_activation.cu). Any stride and alignment; slower where the
// rows of x, up and y start at different places between multiples of 16 bytes.
#include "ops/activation/activation.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::activation {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/activation/cuda_activation.cu");
  return described;
}

}  // namespace

Implementation cuda_activation() {
  return configured_cuda_kernel("cuda_activation",
                                "every element from memory into registers and back, in chunks of 16 bytes", kernel,
                                no_bf16_conversions);
}

}  // namespace ridge::ops::activation
