#include <fmt/format.h>

#include "ops/rescale/rescale.h"

namespace ridge::ops::rescale {
namespace {

record::Case make_case(std::int64_t rows, std::int64_t cols, std::string_view more) {
  return built_in_case(fmt::format("rescale rows={} cols={} {}", rows, cols, more));
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  if (set == CaseSet::kCheck) {
    std::vector<record::Case> cases;
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* more : {"", "per_row=1"}) {
        for (const std::int64_t cols : {1, 7, 67, 1024, 1025, 5000}) {
          cases.push_back(make_case(9, cols, fmt::format("dtype={} {}", dtype, more)));
        }
      }
    }
    cases.push_back(make_case(0, 5, "per_row=1"));
    cases.push_back(make_case(300, 64, "per_row=1"));
    cases.push_back(make_case(1, 70000, ""));
    return cases;
  }
  const std::int64_t share = backend == Backend::kCpu ? 16 : 1;
  if (set == CaseSet::kTarget) return {make_case(8192 / share, 16384, ""), make_case(8192 / share, 4096, "per_row=1")};
  return {make_case(8192 / share, 128256, ""), make_case(8192 / share, 4096, "dtype=f32"),
          make_case(16384 / share, 4096, "per_row=1")};
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kRows, kCols};
  return vary_sizes(problem, kSizes, 150, variation, seed);
}

}  // namespace ridge::ops::rescale
