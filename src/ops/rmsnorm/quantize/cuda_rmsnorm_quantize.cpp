// The factors of rows from one read of x, then both copies from another, in tiles of 128 x 128
// (cuda_rmsnorm_quantize.cu). Any stride and alignment; rows that start on 16 bytes are read and written in vectors.
#include "ops/cuda/cuda_kernel.h"
#include "ops/rmsnorm/quantize/quantize.h"

namespace ridge::ops::rmsnorm_quantize {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/rmsnorm/quantize/cuda_rmsnorm_quantize.cu");
  return described;
}

}  // namespace

Implementation cuda_rmsnorm_quantize() {
  Implementation own = cuda_kernel("cuda_rmsnorm_quantize",
                                   "the factors of rows from one read, both copies from another, in tiles of 128 x 128",
                                   kernel, no_eight_bit_floats);
  own.deterministic = true;
  return own;
}

}  // namespace ridge::ops::rmsnorm_quantize
