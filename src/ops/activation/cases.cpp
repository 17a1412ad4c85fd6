#include <fmt/format.h>

#include <array>

#include "ops/activation/activation.h"

namespace ridge::ops::activation {

std::vector<record::Case> cases_of(std::string_view op, CaseSet set, Backend backend) {
  using Size = std::array<std::int64_t, 2>;
  std::vector<record::Case> cases;
  const auto add = [&](const Size& size, std::string_view more) {
    cases.push_back(built_in_case(fmt::format("{} rows={} cols={} {}", op, size[0], size[1], more)));
  };
  if (set == CaseSet::kCheck) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* function : {"silu", "gelu", "gelu_tanh", "relu", "relu2", "clamped_silu"}) {
        for (const char* more : {"", "gated=0", "probs=1", "probs=1 mask=1", "gated=0 probs=1 mask=1"}) {
          add({7, 67}, fmt::format("dtype={} function={} {}", dtype, function, more));
        }
        add({3, 1100}, fmt::format("dtype={} function={} probs=1", dtype, function));
      }
    }
    for (const Size& size : {Size{0, 5}, Size{1, 1}, Size{130, 1}, Size{33, 8}, Size{19, 16}, Size{5, 1024},
                             Size{4, 2049}, Size{2, 20000}}) {
      add(size, "probs=1 mask=1");
    }
    return cases;
  }
  const bool cpu = backend == Backend::kCpu;
  const std::int64_t share = cpu ? 16 : 1;
  if (set == CaseSet::kTarget) {
    add({8192 / share, 14336}, "");
    add({4096 / share, 4096}, "function=gelu_tanh");
    return cases;
  }
  add({8192 / share, 14336}, "");
  add({8192 / share, 28672}, "");
  add({16384 / share, 2048}, "probs=1");
  add({8192 / share, 16384}, "function=gelu gated=0");
  add({8192 / share, 2880}, "function=clamped_silu");
  return cases;
}

std::vector<record::Case> cases(CaseSet set, Backend backend) { return cases_of("activation", set, backend); }

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kRows, kCols};
  return vary_sizes(problem, kSizes, 150, variation, seed);
}

}  // namespace ridge::ops::activation
