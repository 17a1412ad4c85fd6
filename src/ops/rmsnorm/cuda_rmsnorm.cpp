// Rows that are read once from memory, in four ways by their length (cuda_rmsnorm.cu). Any stride and
// alignment; rows that start on 16 bytes and are whole multiples of them are read once.
#include "ops/cuda/cuda_kernel.h"
#include "ops/rmsnorm/rmsnorm.h"

namespace ridge::ops::rmsnorm {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/rmsnorm/cuda_rmsnorm.cu");
  return described;
}

}  // namespace

Implementation cuda_rmsnorm() {
  return configured_cuda_kernel(
      "cuda_rmsnorm", "rows read once from memory: held in registers, by the copy engine, or read again from a cache",
      kernel, no_bulk_copies);
}

}  // namespace ridge::ops::rmsnorm
