#include <fmt/format.h>

#include <array>

#include "ops/dequantize/dequantize.h"

namespace ridge::ops::dequantize {
namespace {

record::Case make_case(std::int64_t rows, std::int64_t cols, std::string_view more) {
  return built_in_case(fmt::format("dequantize rows={} cols={} {}", rows, cols, more));
}

std::vector<record::Case> check_cases() {
  using Size = std::array<std::int64_t, 2>;
  const Size sizes[] = {{0, 5}, {5, 0}, {1, 1}, {1, 131}, {130, 1}, {31, 33}, {127, 129}, {128, 128}, {37, 300}};
  std::vector<record::Case> cases;
  for (const char* scaling : {"tensor", "row", "1x128", "128x128", "mx"}) {
    for (const Size& size : sizes) cases.push_back(make_case(size[0], size[1], fmt::format("scaling={}", scaling)));
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      cases.push_back(make_case(45, 140, fmt::format("format=e5m2 dtype={} scaling={}", dtype, scaling)));
      cases.push_back(make_case(61, 67, fmt::format("dtype={} scaling={}", dtype, scaling)));
    }
  }
  return cases;
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  if (set == CaseSet::kCheck) return check_cases();
  if (set == CaseSet::kTarget) return {make_case(256, 1024, "scaling=1x128"), make_case(250, 700, "scaling=1x128")};
  const bool cpu = backend == Backend::kCpu;
  std::vector<record::Case> cases;
  for (const char* scaling : {"tensor", "row", "1x128", "128x128", "mx"}) {
    cases.push_back(make_case(cpu ? 512 : 8192, cpu ? 2048 : 8192, fmt::format("scaling={}", scaling)));
  }
  return cases;
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kRows, kCols};
  return vary_sizes(problem, kSizes, 150, variation, seed);
}

}  // namespace ridge::ops::dequantize
