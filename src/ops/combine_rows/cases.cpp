#include <fmt/format.h>

#include <array>

#include "ops/combine_rows/combine_rows.h"

namespace ridge::ops::combine_rows {
namespace {

constexpr const char* kOptions[] = {"weights=1", "weights=0"};

}  // namespace

std::vector<record::Case> cases_of(std::string_view op, CaseSet set, Backend backend,
                                   std::span<const char* const> options) {
  using Size = std::array<std::int64_t, 4>;
  std::vector<record::Case> cases;
  const auto add = [&](const Size& size, std::string_view more) {
    cases.push_back(built_in_case(
        fmt::format("{} rows={} sources={} cols={} top={} {}", op, size[0], size[1], size[2], size[3], more)));
  };
  if (set == CaseSet::kCheck) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* option : options) {
        add({40, 60, 67, 3}, fmt::format("dtype={} index=i64 {}", dtype, option));
        add({90, 30, 128, 8}, fmt::format("dtype={} {}", dtype, option));
        add({50, 45, 64, 1}, fmt::format("dtype={} {}", dtype, option));
      }
    }
    for (const Size& size : {Size{0, 5, 8, 2}, Size{5, 0, 8, 2}, Size{1, 1, 1, 1}, Size{3, 7, 2500, 4},
                             Size{700, 90, 16, 2}, Size{20, 20, 1024, 11}, Size{9, 30, 48, 64}}) {
      for (const char* option : options) add(size, option);
    }
    return cases;
  }
  const std::int64_t share = backend == Backend::kCpu ? 64 : 1;
  add({16384 / share, 131072 / share, 7168, 8}, options.front());
  if (set == CaseSet::kTarget) return cases;
  add({131072 / share, 16384 / share, 7168, 1}, options.back());
  add({16384 / share, 32768 / share, 4096, 2}, options.front());
  return cases;
}

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  return cases_of("combine_rows", set, backend, kOptions);
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kRows, kSources, kCols};
  return vary_sizes(problem, kSizes, 100, variation, seed);
}

}  // namespace ridge::ops::combine_rows
