// Codes times scales, 16 of a row at a time (cuda_dequantize.cu). Any stride and alignment.
#include "ops/cuda/cuda_kernel.h"
#include "ops/dequantize/dequantize.h"

namespace ridge::ops::dequantize {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/dequantize/cuda_dequantize.cu");
  return described;
}

}  // namespace

Implementation cuda_dequantize() {
  Implementation own =
      cuda_kernel("cuda_dequantize", "16 codes at a time, times their scale", kernel, no_eight_bit_floats);
  own.deterministic = true;
  return own;
}

}  // namespace ridge::ops::dequantize
