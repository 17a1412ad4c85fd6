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

// Heads of up to 64 columns take four steps of K and V on their way, and up to 256 queries tiles of 128, since those of
// 192 would be half empty. Without anything beside the scores: three tiles of Q up to 2048 keys, and up to 512 steps of
// 64 keys, four on their way; at 192/128 steps of 128 keys beside Q in registers. Figures: docs/operators/attention.md.
std::string_view prefers(const Problem& problem) {
  const Shape s = shape_of(problem);
  const std::int64_t widest = std::max(s.dim, s.v_dim);
  if (widest <= 64) return s.q_len <= 256 ? "two_stages4_slots4" : "stages4";
  const bool plain = s.window.left < 0 && s.window.right <= 0 && s.documents == 0 && !s.softcap && !s.sinks && !s.alibi;
  if (plain && widest <= 128 && s.k_len <= 512) return "keys64_stages4_slots3";
  if (plain && widest <= 128 && s.k_len <= 2048) return "slots3";
  if (plain && s.dim > 128 && s.dim <= 192 && s.v_dim <= 128) return "keys128";
  return "default";
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
