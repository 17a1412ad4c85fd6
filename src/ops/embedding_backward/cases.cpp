#include <fmt/format.h>

#include <array>

#include "ops/embedding_backward/embedding_backward.h"

namespace ridge::ops::embedding_backward {

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  using Size = std::array<std::int64_t, 3>;
  std::vector<record::Case> cases;
  const auto add = [&](const Size& size, std::string_view more) {
    cases.push_back(built_in_case(
        fmt::format("embedding_backward tokens={} vocabulary={} cols={} {}", size[0], size[1], size[2], more)));
  };
  if (set == CaseSet::kCheck) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* more : {"", "index=i32", "out=f32", "accumulate=1 index=i32"}) {
        add({90, 40, 67}, fmt::format("dtype={} {}", dtype, more));
        add({300, 7, 128}, fmt::format("dtype={} {}", dtype, more));
      }
    }
    for (const Size& size : {Size{0, 5, 8}, Size{1, 1, 1}, Size{5, 300, 33}, Size{40, 3, 2500}, Size{2000, 1, 24},
                             Size{700, 90, 64}, Size{17, 600, 16}}) {
      add(size, "");
      add(size, "accumulate=1");
    }
    return cases;
  }
  const std::int64_t share = backend == Backend::kCpu ? 16 : 1;
  add({8192 / share, 128256 / share, 4096}, "");
  if (set == CaseSet::kTarget) return cases;
  add({8192 / share, 32000 / share, 4096}, "");
  add({8192 / share, 128256 / share, 4096}, "accumulate=1");
  return cases;
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kTokens, kVocabulary, kCols};
  return vary_sizes(problem, kSizes, 100, variation, seed);
}

}  // namespace ridge::ops::embedding_backward
