// The library's own gradients of attention for Hopper where heads are wider than 128
// (cuda_attention_backward_wide.cu).
#include "ops/attention/backward/backward.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::attention_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/attention/backward/cuda_attention_backward_wide.cu");
  return described;
}

}  // namespace

Implementation cuda_attention_backward_wide() {
  return cuda_kernel("cuda_attention_backward_wide",
                     "own kernel on Hopper's matrix units for heads of more than 128; compiled at run time", kernel,
                     attention::no_wgmma);
}

}  // namespace ridge::ops::attention_backward
