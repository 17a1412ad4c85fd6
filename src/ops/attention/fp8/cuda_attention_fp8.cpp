// The library's own attention of codes for Hopper: cuda_attention_fp8.cu, built for the heads, mask and result of the
// call. Heads that are no multiple of 16, heads of v above 128, and rows that do not start on 16 bytes, are refused.
#include "ops/attention/fp8/fp8.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::attention_fp8 {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/attention/fp8/cuda_attention_fp8.cu");
  return described;
}

}  // namespace

Implementation cuda_attention_fp8() {
  return configured_cuda_kernel(
      "cuda_attention_fp8", "own kernel on Hopper's 8-bit matrix units, fed by its copy engine; compiled at run time",
      kernel, attention::no_wgmma);
}

}  // namespace ridge::ops::attention_fp8
