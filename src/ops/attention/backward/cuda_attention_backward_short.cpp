// The library's own gradients of attention for Hopper where a block holds a whole head
// (cuda_attention_backward_short.cu). It takes fewer calls than cuda_attention_backward, and is asked first.
#include "ops/attention/backward/backward.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::attention_backward {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/attention/backward/cuda_attention_backward_short.cu");
  return described;
}

}  // namespace

Implementation cuda_attention_backward_short() {
  Implementation own = cuda_kernel("cuda_attention_backward_short",
                                   "own kernel on Hopper's matrix units for up to 256 queries and keys of heads of up "
                                   "to 64 that share no keys, in one launch; compiled at run time",
                                   kernel, attention::no_wgmma);
  own.rank = -10;
  own.deterministic = true;
  return own;
}

}  // namespace ridge::ops::attention_backward
