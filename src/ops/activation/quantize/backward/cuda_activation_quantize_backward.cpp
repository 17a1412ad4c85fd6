// Both copies of both gradients in tiles of 128 x 128 (cuda_activation_quantize_backward.cu); for scales of a row or a
// tensor two passes. Any stride and alignment; rows that start on 16 bytes are read and written in vectors.
#include "ops/activation/quantize/backward/backward.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::activation_quantize_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described =
      described_kernel("ops/activation/quantize/backward/cuda_activation_quantize_backward.cu");
  return described;
}

}  // namespace

Implementation cuda_activation_quantize_backward() {
  Implementation own = cuda_kernel("cuda_activation_quantize_backward",
                                   "both copies of both gradients in tiles of 128 x 128, from one read of the inputs; "
                                   "scales of rows and tensors from a read before",
                                   kernel, no_eight_bit_floats);
  own.deterministic = true;
  return own;
}

}  // namespace ridge::ops::activation_quantize_backward
