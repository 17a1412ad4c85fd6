// The gradients of the chosen scores by lanes, and the row in chunks (cuda_route_backward.cu). Any stride and
// alignment.
#include "ops/cuda/cuda_kernel.h"
#include "ops/route/backward/backward.h"

namespace ridge::ops::route_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/route/backward/cuda_route_backward.cu");
  return described;
}

}  // namespace

Implementation cuda_route_backward() {
  return configured_cuda_kernel("cuda_route_backward", "a part of a warp for each row, a lane for each choice", kernel,
                                no_bf16_conversions);
}

}  // namespace ridge::ops::route_backward
