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
  Implementation own = cuda_kernel("cuda_adamw", "one pass over memory, every operand once", kernel, no_cache_hints);
  own.deterministic = true;
  kernel().describe(own);
  own.promising = [](const Problem& problem, const DeviceInfo&) { return kernel().fitting(plan_facts(problem)); };
  return own;
}

}  // namespace ridge::ops::adamw
