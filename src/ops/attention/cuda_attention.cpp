// The library's own attention for Hopper: cuda_attention.cu, built for the head dimension, type and mask of the call.
// Wins from about a thousand keys; docs/operators/attention.md has the figures. Dimensions that are no multiple of 8,
// and rows that do not start on 16 bytes, are refused.
#include "ops/attention/attention.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::attention {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/attention/cuda_attention.cu");
  return described;
}

Refusal refuses(const DeviceInfo& device) {
  if (device.has("wgmma")) return std::nullopt;
  return fmt::format("{} ({}) has no wgmma", device.name, device.arch);
}

}  // namespace

Implementation cuda_attention() {
  Implementation own =
      cuda_kernel("cuda_attention", "own kernel on Hopper's matrix units, fed by its copy engine; compiled at run time",
                  kernel, refuses);
  own.deterministic = true;
  return own;
}

}  // namespace ridge::ops::attention
