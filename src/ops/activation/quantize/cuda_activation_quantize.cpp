// Both copies from one read of x and up, in tiles of 128 x 128 (cuda_activation_quantize.cu); for scales of a row or a
// tensor two reads. Any stride and alignment; rows that start on 16 bytes are read and written in vectors.
#include "ops/activation/quantize/quantize.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::activation_quantize {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/activation/quantize/cuda_activation_quantize.cu");
  return described;
}

}  // namespace

Implementation cuda_activation_quantize() {
  Implementation own = cuda_kernel("cuda_activation_quantize",
                                   "both copies from one read of the inputs, in tiles of 128 x 128; scales of rows and "
                                   "tensors from a read before",
                                   kernel, no_eight_bit_floats);
  own.deterministic = true;
  return own;
}

}  // namespace ridge::ops::activation_quantize
