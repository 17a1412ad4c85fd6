// Both copies of rows of groups from one read of them, in tiles of 128 x 128 of the padded matrix
// (cuda_grouped_quantize.cu). Any stride and alignment; rows that start on 16 bytes are read and written in vectors.
#include "ops/cuda/cuda_kernel.h"
#include "ops/grouped_quantize/grouped_quantize.h"

namespace ridge::ops::grouped_quantize {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/grouped_quantize/cuda_grouped_quantize.cu");
  return described;
}

}  // namespace

Implementation cuda_grouped_quantize() {
  Implementation own =
      cuda_kernel("cuda_grouped_quantize", "both copies from one read of the rows of groups, in tiles of 128 x 128",
                  kernel, no_eight_bit_floats);
  own.deterministic = true;
  return own;
}

}  // namespace ridge::ops::grouped_quantize
