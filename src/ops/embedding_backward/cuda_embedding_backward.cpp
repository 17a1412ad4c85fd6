// Tokens sorted by counting, and rows added up in their order (cuda_embedding_backward.cu). Any stride and alignment.
#include "ops/cuda/cuda_kernel.h"
#include "ops/embedding_backward/embedding_backward.h"

namespace ridge::ops::embedding_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/embedding_backward/cuda_embedding_backward.cu");
  return described;
}

}  // namespace

Implementation cuda_embedding_backward() {
  return configured_cuda_kernel("cuda_embedding_backward",
                                "tokens sorted by counting in scratch memory, every row of dw added up in their order",
                                kernel, no_bulk_copies);
}

}  // namespace ridge::ops::embedding_backward
