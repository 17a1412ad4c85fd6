// Rows kept in registers from their largest number to their result (cuda_softmax.cu). Any stride and alignment; rows
// that start on 16 bytes and are whole multiples of them, up to 256 KiB, are read once.
#include "ops/cuda/cuda_kernel.h"
#include "ops/softmax/softmax.h"

namespace ridge::ops::softmax {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/softmax/cuda_softmax.cu");
  return described;
}

}  // namespace

Implementation cuda_softmax() {
  return configured_cuda_kernel("cuda_softmax",
                                "rows by the copy engine, in registers of one to eight blocks up to their result",
                                kernel, no_bulk_copies);
}

}  // namespace ridge::ops::softmax
