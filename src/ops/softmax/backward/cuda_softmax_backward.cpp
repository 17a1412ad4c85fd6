// Rows that are read once from memory, in four ways by their length (cuda_softmax_backward.cu). Any stride and
// alignment; rows that start on 16 bytes and are whole multiples of them, up to 256 KiB, are read once.
#include "ops/cuda/cuda_kernel.h"
#include "ops/softmax/backward/backward.h"

namespace ridge::ops::softmax_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/softmax/backward/cuda_softmax_backward.cu");
  return described;
}

}  // namespace

Implementation cuda_softmax_backward() {
  return configured_cuda_kernel(
      "cuda_softmax_backward",
      "rows read once from memory: held in registers, by the copy engine, or read again from a cache", kernel,
      no_bulk_copies);
}

}  // namespace ridge::ops::softmax_backward
