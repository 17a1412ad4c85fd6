// Both copies from one read of the matrix, in tiles of 128 x 128 (cuda_quantize.cu); for scales of a row or a tensor
// two reads. Any stride and alignment; rows that start on 16 bytes are read and written in vectors.
#include "ops/cuda/cuda_kernel.h"
#include "ops/quantize/quantize.h"

namespace ridge::ops::quantize {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/quantize/cuda_quantize.cu");
  return described;
}

}  // namespace

Implementation cuda_quantize() {
  Implementation own =
      cuda_kernel("cuda_quantize",
                  "both copies from one read, in tiles of 128 x 128; scales of rows and tensors from a read before",
                  kernel, no_eight_bit_floats);
  own.deterministic = true;
  return own;
}

}  // namespace ridge::ops::quantize
