// Rows that are read once from memory, in four ways by their length (cuda_layernorm.cu). Any stride and alignment;
// rows that start on 16 bytes and are whole multiples of them are read once.
#include "ops/cuda/cuda_kernel.h"
#include "ops/layernorm/layernorm.h"

namespace ridge::ops::layernorm {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/layernorm/cuda_layernorm.cu");
  return described;
}

}  // namespace

Implementation cuda_layernorm() {
  return configured_cuda_kernel(
      "cuda_layernorm", "rows read once from memory: held in registers, by the copy engine, or read again from a cache",
      kernel, no_bulk_copies);
}

}  // namespace ridge::ops::layernorm
