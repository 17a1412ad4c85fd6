// One element per thread, as cuda_vector.cu describes its launch.
#include "ops/cuda/cuda_kernel.h"
#include "scale/scale.h"

namespace ridge::ops::scale {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("scale/cuda_vector.cu");
  return described;
}

}  // namespace

Implementation cuda_vector() {
  Implementation vector = cuda_kernel("cuda_vector", "one element per thread", kernel,
                                      [](const DeviceInfo&) -> Refusal { return std::nullopt; });
  vector.deterministic = true;
  return vector;
}

}  // namespace ridge::ops::scale
