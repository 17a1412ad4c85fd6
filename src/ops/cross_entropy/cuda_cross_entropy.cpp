// Rows kept in registers from their log-sum-exp to their gradient (cuda_cross_entropy.cu). Any stride and alignment;
// rows that start on 16 bytes and are whole multiples of them come by the copy engine. A target that is out of range
// makes its row NaN.
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::cross_entropy {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/cross_entropy/cuda_cross_entropy.cu");
  return described;
}

}  // namespace

Implementation cuda_cross_entropy() {
  return configured_cuda_kernel(
      "cuda_cross_entropy", "rows by the copy engine, in registers of one to eight blocks from the sum to the gradient",
      kernel, no_bulk_copies);
}

}  // namespace ridge::ops::cross_entropy
