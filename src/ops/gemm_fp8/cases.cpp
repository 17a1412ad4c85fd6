#include <fmt/format.h>

#include <array>

#include "ops/gemm_fp8/gemm_fp8.h"

namespace ridge::ops::gemm_fp8 {
namespace {

using Size = std::array<std::int64_t, 3>;  // m, n, k

record::Case make_case(const Size& size, std::string_view more) {
  return built_in_case(fmt::format("gemm_fp8 m={} n={} k={} {}", size[0], size[1], size[2], more));
}

// Around the blocks of 32 and 128, and nothing at all; every scaling with every pair of formats, layout, output and
// kind of sums, though not their product.
std::vector<record::Case> check_cases() {
  const Size sizes[] = {{0, 5, 3}, {4, 0, 3}, {3, 4, 0}, {1, 1, 1}, {7, 130, 33}, {33, 31, 129}, {128, 16, 128}};
  std::vector<record::Case> cases;
  for (const char* scaling : {"tensor", "row", "block", "vector", "mx"}) {
    for (const Size& size : sizes) {
      cases.push_back(make_case(size, fmt::format("scaling={} sums=f32 out=f32", scaling)));
    }
    for (const char* layout : {"nn", "tn", "tt"}) {
      cases.push_back(make_case({45, 29, 150}, fmt::format("scaling={} layout={} sums=f32", scaling, layout)));
    }
    for (const char* dtype : {"e5m2", "e4m3fn_e5m2", "e5m2_e4m3fn"}) {
      cases.push_back(make_case({20, 37, 140}, fmt::format("scaling={} dtype={} out=f16", scaling, dtype)));
    }
    for (const char* out : {"bf16", "f32"}) {
      cases.push_back(make_case({31, 66, 270}, fmt::format("scaling={} out={} accumulate=1 sums=f32", scaling, out)));
    }
    cases.push_back(make_case({17, 40, 0}, fmt::format("scaling={} accumulate=1", scaling)));
    cases.push_back(make_case({64, 48, 256}, fmt::format("scaling={} sums=fast", scaling)));
  }
  for (const char* scaling : {"tensor", "row", "block", "mx"}) {
    for (const char* more : {"out=bf16", "out=f16 layout=nn", "out=f32 sums=f32"}) {
      cases.push_back(make_case({31, 72, 270}, fmt::format("scaling={} bias=1 {}", scaling, more)));
    }
    cases.push_back(make_case({64, 48, 256}, fmt::format("scaling={} sums=fast bias=1", scaling)));
  }
  cases.push_back(make_case({12, 20, 0}, "bias=1"));
  cases.push_back(make_case({230, 330, 401}, "scaling=block sums=f32"));
  return cases;
}

// The three products of a linear layer, at a CPU's size.
std::vector<record::Case> bench_cases(std::int64_t size) {
  std::vector<record::Case> cases;
  for (const char* more : {"scaling=tensor", "scaling=row", "scaling=block", "scaling=vector accumulate=1 out=f32",
                           "scaling=mx", "scaling=tensor dtype=e5m2_e4m3fn sums=fast"}) {
    cases.push_back(make_case({size, size, size}, more));
    cases.push_back(make_case({size / 2, size * 2, size}, more));
  }
  return cases;
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  switch (set) {
    case CaseSet::kCheck: return check_cases();
    case CaseSet::kBench: return bench_cases(backend == Backend::kCpu ? 512 : 8192);
    case CaseSet::kTarget:
      return {make_case({256, 256, 256}, "scaling=block sums=f32"),
              make_case({192, 384, 320}, "scaling=block sums=f32"),
              make_case({250, 270, 290}, "scaling=block sums=f32")};
  }
  return {};
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kM, kN, kK};
  return vary_sizes(problem, kSizes, 40, variation, seed);
}

}  // namespace ridge::ops::gemm_fp8
