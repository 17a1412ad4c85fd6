// Pieces of rows, one read and one write (cuda_cross_entropy_backward.cu). Any stride and alignment. A target that is
// out of range makes its row NaN.
#include "ops/cross_entropy/backward/backward.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::cross_entropy_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described =
      described_kernel("ops/cross_entropy/backward/cuda_cross_entropy_backward.cu");
  return described;
}

}  // namespace

Implementation cuda_cross_entropy_backward() {
  return configured_cuda_kernel("cuda_cross_entropy_backward",
                                "pieces of rows straight into registers, by blocks that come and go", kernel,
                                no_bulk_copies);
}

}  // namespace ridge::ops::cross_entropy_backward
