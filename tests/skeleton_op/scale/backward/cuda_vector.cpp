// Both gradients on a GPU, as cuda_vector.cu describes its launch.
#include "ops/cuda/cuda_kernel.h"
#include "scale/backward/backward.h"

namespace ridge::ops::scale_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("scale/backward/cuda_vector.cu");
  return described;
}

}  // namespace

Implementation cuda_vector() {
  Implementation vector = cuda_kernel("cuda_vector", "both gradients from one read of dy", kernel,
                                      [](const DeviceInfo&) -> Refusal { return std::nullopt; });
  vector.deterministic = true;
  return vector;
}

}  // namespace ridge::ops::scale_backward
