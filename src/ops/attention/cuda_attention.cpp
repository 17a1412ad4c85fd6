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

// Tiles of 128 queries where those of 192 would be half empty: 136 to 111 TFLOP/s at 256 queries, causal, on an H200.
std::string_view prefers(const Problem& problem) {
  const Shape s = shape_of(problem);
  return std::max(s.dim, s.v_dim) <= 64 && s.q_len <= 256 ? "two" : "default";
}

}  // namespace

Refusal no_wgmma(const DeviceInfo& device) {
  if (device.has("wgmma")) return std::nullopt;
  return fmt::format("{} ({}) has no wgmma", device.name, device.arch);
}

Implementation cuda_attention() {
  return configured_cuda_kernel("cuda_attention",
                                "own kernel on Hopper's matrix units, fed by its copy engine; compiled at run time",
                                kernel, no_wgmma, prefers);
}

}  // namespace ridge::ops::attention
