// Rows of dy and x by the copy engine, dweight in registers (cuda_rmsnorm_backward.cu). Any stride and alignment; rows
// that start on 16 bytes and are whole multiples of them are read once.
#include "ops/cuda/cuda_kernel.h"
#include "ops/rmsnorm/backward/backward.h"

namespace ridge::ops::rmsnorm_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/rmsnorm/backward/cuda_rmsnorm_backward.cu");
  return described;
}

}  // namespace

Implementation cuda_rmsnorm_backward() {
  return configured_cuda_kernel(
      "cuda_rmsnorm_backward",
      "rows by the copy engine, read once; dweight in registers, then partial sums in their order", kernel,
      no_bulk_copies);
}

}  // namespace ridge::ops::rmsnorm_backward
