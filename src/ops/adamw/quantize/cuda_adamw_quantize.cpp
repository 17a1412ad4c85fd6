// The step and both copies in one pass, in tiles of 128 x 128 (cuda_adamw_quantize.cu); for scales of a row or a tensor
// the new weight is read once more. Any stride and alignment; rows that start on 16 bytes go in vectors.
#include "ops/adamw/quantize/quantize.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::adamw_quantize {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/adamw/quantize/cuda_adamw_quantize.cu");
  return described;
}

}  // namespace

Implementation cuda_adamw_quantize() {
  Implementation own = configured_cuda_kernel(
      "cuda_adamw_quantize",
      "the step and both copies in one pass, in tiles of 128 x 128; scales of rows and tensors from a pass before",
      kernel, no_eight_bit_floats);
  own.deterministic = true;
  return own;
}

}  // namespace ridge::ops::adamw_quantize
