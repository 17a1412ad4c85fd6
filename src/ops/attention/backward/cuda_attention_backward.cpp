// The library's own gradients of attention for Hopper: cuda_attention_backward.cu, built for the head dimension, type,
// mask and order of the call. Heads of other sizes than multiples of 8 up to 128, and rows that do not start on 16
// bytes, are refused.
#include "ops/attention/backward/backward.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::attention_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/attention/backward/cuda_attention_backward.cu");
  return described;
}

}  // namespace

Implementation cuda_attention_backward() {
  return cuda_kernel("cuda_attention_backward",
                     "own kernel on Hopper's matrix units, fed by its copy engine; compiled at run time", kernel,
                     attention::no_wgmma);
}

}  // namespace ridge::ops::attention_backward
