// Rows of dy and x by the copy engine, dweight and dbias in registers (cuda_layernorm_backward.cu). Any stride and
// alignment; rows that start on 16 bytes and are whole multiples of them are read once.
#include "ops/cuda/cuda_kernel.h"
#include "ops/layernorm/backward/backward.h"

namespace ridge::ops::layernorm_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/layernorm/backward/cuda_layernorm_backward.cu");
  return described;
}

}  // namespace

Implementation cuda_layernorm_backward() {
  return configured_cuda_kernel(
      "cuda_layernorm_backward",
      "rows by the copy engine, read once; dweight and dbias in registers, then partial sums in their order", kernel,
      no_bulk_copies);
}

}  // namespace ridge::ops::layernorm_backward
