#include <fmt/format.h>

#include <array>

#include "ops/cross_entropy/cross_entropy.h"

namespace ridge::ops::cross_entropy {

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  using Size = std::array<std::int64_t, 2>;
  std::vector<record::Case> cases;
  const auto add = [&](const Size& size, std::string_view more) {
    cases.push_back(built_in_case(fmt::format("cross_entropy tokens={} vocabulary={} {}", size[0], size[1], more)));
  };
  if (set == CaseSet::kCheck) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* more : {"", "lse=0 index=i32", "dlogits=1", "dlogits=1 grad=1", "dlogits=1 soft_cap=1 lse=0",
                               "soft_cap=1 index=i32", "shard=1", "shard=1 soft_cap=1 index=i32"}) {
        add({7, 67}, fmt::format("dtype={} {}", dtype, more));
      }
      add({3, 2500}, fmt::format("dtype={} dlogits=1 grad=1", dtype));
      add({3, 4100}, fmt::format("dtype={} shard=1", dtype));
    }
    for (const Size& size : {Size{0, 5}, Size{1, 1}, Size{130, 1}, Size{33, 2}, Size{19, 16}, Size{5, 2048},
                             Size{4, 2049}, Size{2, 20000}}) {
      add(size, "dlogits=1");
      add(size, "dlogits=1 soft_cap=1 grad=1");
    }
    return cases;
  }
  const std::int64_t share = backend == Backend::kCpu ? 32 : 1;
  add({8192 / share, 128256}, "dlogits=1");
  add({8192 / share, 32000}, "dlogits=1 grad=1");
  if (set == CaseSet::kTarget) return cases;
  add({8192 / share, 128256}, "");
  add({8192 / share, 152064}, "dlogits=1");
  add({8192 / share, 128256}, "dlogits=1 dtype=f32");
  add({8192 / share, 256000}, "dlogits=1 soft_cap=1");
  return cases;
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kTokens, kVocabulary};
  return vary_sizes(problem, kSizes, 150, variation, seed);
}

}  // namespace ridge::ops::cross_entropy
