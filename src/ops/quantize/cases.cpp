#include <fmt/format.h>

#include <array>

#include "ops/quantize/quantize.h"

namespace ridge::ops::quantize {
namespace {

using Size = std::array<std::int64_t, 2>;

record::Case make_case(const Size& size, std::string_view more) {
  return built_in_case(fmt::format("quantize rows={} cols={} {}", size[0], size[1], more));
}

// Around the blocks of 32 and 128, and nothing at all; every granularity with every rule, format and dtype.
std::vector<record::Case> check_cases() {
  const Size sizes[] = {{0, 5}, {5, 0}, {1, 1}, {1, 131}, {130, 1}, {31, 33}, {127, 129}, {128, 128}, {37, 300}};
  std::vector<record::Case> cases;
  for (const char* scaling : {"tensor", "row", "1x128", "128x128", "mx"}) {
    const bool mx = std::string_view(scaling) == "mx";
    for (const Size& size : sizes) cases.push_back(make_case(size, fmt::format("scaling={} copies=both", scaling)));
    for (const char* dtype : {"f32", "f16"}) {
      for (const char* format : {"e4m3fn", "e5m2"}) {
        cases.push_back(make_case({45, 140}, fmt::format("dtype={} format={} scaling={}", dtype, format, scaling)));
      }
    }
    for (const char* rule : {"floor", "even", "ceil"}) {
      for (const char* format : {"e4m3fn", "e5m2"}) {
        cases.push_back(
            make_case({131, 70}, fmt::format("format={} scaling={} scale={} copies=both", format, scaling, rule)));
      }
    }
    cases.push_back(make_case({67, 133}, fmt::format("scaling={} copies=column", scaling)));
    cases.push_back(make_case(
        {67, 133}, fmt::format("scaling={} copies=both rounding=stochastic scale={}", scaling, mx ? "ceil" : "f32")));
  }
  return cases;
}

// A largest magnitude that is given, above and below x's own.
void add_given(std::vector<record::Case>& cases) {
  for (const Size& size : {Size{0, 5}, Size{5, 0}, Size{1, 1}, Size{130, 1}, Size{33, 129}}) {
    cases.push_back(make_case(size, "amax=given copies=both"));
  }
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    for (const char* format : {"e4m3fn", "e5m2"}) {
      cases.push_back(make_case({45, 140}, fmt::format("amax=given dtype={} format={}", dtype, format)));
    }
  }
  for (const char* more : {"scale=floor", "scale=even copies=both", "scale=ceil format=e5m2", "copies=column",
                           "copies=both rounding=stochastic"}) {
    cases.push_back(make_case({67, 133}, fmt::format("amax=given {}", more)));
  }
}

// Activations and weights of small language models, at a CPU's size.
std::vector<record::Case> bench_cases(const Size& activation, const Size& weight) {
  std::vector<record::Case> cases;
  for (const char* scaling : {"tensor", "row", "1x128", "mx"}) {
    for (const char* copies : {"row", "both"}) {
      cases.push_back(make_case(activation, fmt::format("scaling={} copies={}", scaling, copies)));
    }
  }
  cases.push_back(make_case(activation, "format=e5m2 scaling=1x128 copies=both"));
  cases.push_back(make_case(weight, "scaling=128x128 copies=both"));
  return cases;
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  switch (set) {
    case CaseSet::kCheck: {
      std::vector<record::Case> all = check_cases();
      add_given(all);
      return all;
    }
    case CaseSet::kBench:
      return backend == Backend::kCpu ? bench_cases({512, 2048}, {1024, 1024})
                                      : bench_cases({8192, 8192}, {8192, 8192});
    case CaseSet::kTarget:
      return {make_case({256, 1024}, "scaling=1x128 copies=both"), make_case({384, 640}, "scaling=1x128 copies=both"),
              make_case({250, 700}, "scaling=1x128 copies=both")};
  }
  return {};
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kRows, kCols};
  return vary_sizes(problem, kSizes, 150, variation, seed);
}

}  // namespace ridge::ops::quantize
