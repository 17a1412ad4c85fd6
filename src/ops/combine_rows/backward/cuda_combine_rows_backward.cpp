// A warp for a row of dy and some of its sources (cuda_combine_rows_backward.cu). Any stride and alignment; slower
// where rows do not start on 16 bytes.
#include "ops/combine_rows/backward/backward.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::combine_rows_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/combine_rows/backward/cuda_combine_rows_backward.cu");
  return described;
}

}  // namespace

Implementation cuda_combine_rows_backward() {
  return configured_cuda_kernel("cuda_combine_rows_backward",
                                "a warp for a row of dy, which it multiplies with its sources side by side", kernel,
                                no_bf16_conversions);
}

}  // namespace ridge::ops::combine_rows_backward
