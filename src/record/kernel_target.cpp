#include "record/kernel_target.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "record/architecture.h"

namespace ridge::record {
namespace {

// From the first generation with 8-bit floats on; what is older has no kernel of ours.
constexpr KernelTarget kTargets[] = {{"sm_89", "Ada (L40S, RTX 40)"},
                                     {"sm_90a", "Hopper (H100, H200)"},
                                     {"sm_100a", "Blackwell (B200)"},
                                     {"sm_103a", "Blackwell Ultra (B300)"},
                                     {"sm_120a", "Blackwell (RTX 50, RTX PRO)"}};

// Why there is no such target.
std::string reason(std::string_view arch) {
  const Result<Architecture> parsed = parse_architecture(arch);
  if (!parsed) return "is no architecture";
  if (parsed->family != ArchitectureFamily::kNvidia) return "is no GPU of NVIDIA's: the library has CUDA kernels alone";
  const std::string asked = nvidia_target(parsed->major, parsed->minor);
  const bool other = std::ranges::any_of(kTargets, [&](const KernelTarget& one) { return one.arch == asked; });
  if (other) return fmt::format("is not what such a GPU asks for: {}", asked);
  return at_least(arch, kTargets[0].arch) ? "is not known to this version"
                                          : "is older than every kernel of the library";
}

}  // namespace

std::span<const KernelTarget> kernel_targets() { return kTargets; }

Result<KernelTarget> find_kernel_target(std::string_view arch) {
  for (const KernelTarget& one : kTargets) {
    if (one.arch == arch) return one;
  }
  std::vector<std::string> known;
  for (const KernelTarget& one : kTargets) known.push_back(fmt::format("{} {}", one.arch, one.gpus));
  return with_hint(invalid("\"{}\" {}", arch, reason(arch)), fmt::format("use {}", fmt::join(known, ", ")));
}

Result<std::vector<std::string>> parse_kernel_targets(std::string_view list) {
  std::vector<std::string> targets;
  for (const std::string& arch : split(list, ',')) {
    RIDGE_TRY(target, find_kernel_target(trimmed(arch)));
    if (std::ranges::find(targets, target.arch) != targets.end()) return invalid("{} is there twice", target.arch);
    targets.emplace_back(target.arch);
  }
  return targets;
}

}  // namespace ridge::record
