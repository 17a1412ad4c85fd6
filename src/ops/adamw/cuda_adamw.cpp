// One pass over memory, in units of 16 bytes of the widest operand (cuda_adamw.cu). Any alignment; slower where an
// operand does not start on a unit.
#include "ops/adamw/adamw.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::adamw {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/adamw/cuda_adamw.cu");
  return described;
}

}  // namespace

Implementation cuda_adamw() {
  return configured_cuda_kernel("cuda_adamw", "one pass over memory, every operand once", kernel, no_bf16_conversions);
}

}  // namespace ridge::ops::adamw
