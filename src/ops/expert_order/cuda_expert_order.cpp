// Choices counted by runs, and placed by them (cuda_expert_order.cu). Any stride.
#include "ops/cuda/cuda_kernel.h"
#include "ops/expert_order/expert_order.h"

namespace ridge::ops::expert_order {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/expert_order/cuda_expert_order.cu");
  return described;
}

}  // namespace

Implementation cuda_expert_order() {
  return configured_cuda_kernel("cuda_expert_order", "a counting sort of runs of choices, stable within a warp's lanes",
                                kernel, no_bulk_copies);
}

}  // namespace ridge::ops::expert_order
