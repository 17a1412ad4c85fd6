#include <fmt/format.h>

#include <array>

#include "ops/expert_order/expert_order.h"

namespace ridge::ops::expert_order {

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  using Size = std::array<std::int64_t, 3>;
  std::vector<record::Case> cases;
  const auto add = [&](const Size& size, std::int64_t align) {
    cases.push_back(built_in_case(
        fmt::format("expert_order tokens={} experts={} top={} align={}", size[0], size[1], size[2], align)));
  };
  if (set == CaseSet::kCheck) {
    for (const Size& size : {Size{0, 5, 2}, Size{1, 1, 1}, Size{37, 7, 3}, Size{300, 64, 8}, Size{513, 1, 2},
                             Size{1000, 255, 4}, Size{90, 1100, 8}, Size{3, 4096, 70}, Size{2500, 33, 1}}) {
      for (const std::int64_t align : {1, 16, 100}) add(size, align);
    }
    return cases;
  }
  const std::int64_t tokens = backend == Backend::kCpu ? 2048 : 16384;
  add({tokens, 256, 8}, 1);
  if (set == CaseSet::kTarget) return cases;
  add({tokens, 256, 8}, 128);
  add({tokens, 128, 8}, 1);
  add({tokens, 8, 2}, 1);
  return cases;
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kTokens, kExperts};
  return vary_sizes(problem, kSizes, 60, variation, seed);
}

}  // namespace ridge::ops::expert_order
