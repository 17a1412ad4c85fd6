#include <fmt/format.h>

#include <array>

#include "ops/gemm/gemm.h"

namespace ridge::ops::gemm {
namespace {

using Size = std::array<std::int64_t, 3>;  // m, n, k

record::Case make_case(const Size& size, std::string_view more) {
  return built_in_case(fmt::format("gemm m={} n={} k={} {}", size[0], size[1], size[2], more));
}

// Around the register tiles (4x8, 6x16, 14x32), the cache blocks (k = 256) and nothing at all.
std::vector<record::Case> check_cases() {
  const Size sizes[] = {{0, 5, 3},    {4, 0, 3},     {3, 4, 0},       {1, 1, 1},     {1, 37, 19},  {41, 1, 23},
                        {7, 13, 5},   {13, 31, 64},  {14, 32, 33},    {15, 33, 31},  {6, 16, 128}, {64, 64, 64},
                        {97, 89, 83}, {29, 65, 300}, {128, 100, 257}, {9, 50, 2051}, {90, 5, 33}};
  std::vector<record::Case> cases;
  for (const char* layout : {"nn", "nt", "tn", "tt"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const Size& size : sizes) {
        cases.push_back(make_case(size, fmt::format("dtype={} layout={}", dtype, layout)));
      }
      cases.push_back(make_case({33, 47, 65}, fmt::format("dtype={} layout={} accumulate=1", dtype, layout)));
      cases.push_back(make_case({17, 40, 0}, fmt::format("dtype={} layout={} accumulate=1", dtype, layout)));
    }
    for (const char* dtype : {"bf16", "f16"}) {
      cases.push_back(make_case({31, 66, 70}, fmt::format("dtype={} out=f32 layout={}", dtype, layout)));
      cases.push_back(make_case({31, 66, 270}, fmt::format("dtype={} out=f32 layout={} accumulate=1", dtype, layout)));
    }
  }
  for (const char* more : {"bias=1", "activation=gelu", "activation=gelu_tanh residual=1", "bias=1 activation=silu",
                           "bias=1 activation=gelu residual=1 batch=2", "batch=3", "batch=0", "residual=1"}) {
    cases.push_back(make_case({23, 37, 41}, more));
    cases.push_back(make_case({64, 72, 136}, fmt::format("dtype=bf16 layout=nt {}", more)));
    cases.push_back(make_case({17, 9, 30}, fmt::format("dtype=f16 out=f32 layout=tn {}", more)));
  }
  cases.push_back(make_case({12, 20, 0}, "bias=1 activation=silu"));
  cases.push_back(make_case({5, 0, 7}, "bias=1 residual=1"));
  cases.push_back(make_case({21, 40, 33}, "batch=4 layout=tt accumulate=1"));
  cases.push_back(make_case({230, 530, 601}, "layout=nn"));
  cases.push_back(make_case({230, 530, 601}, "layout=tt dtype=bf16 accumulate=1"));
  return cases;
}

// Dense layers of small language models cut to a CPU's size, squares, and the skinny shapes of decoding.
std::vector<record::Case> bench_cases() {
  const Size sizes[] = {{128, 128, 128},    {256, 256, 256},    {384, 384, 384},  {512, 512, 512},
                        {1024, 1024, 1024}, {2048, 2048, 2048}, {512, 2048, 512}, {512, 512, 2048},
                        {2048, 512, 512},   {1024, 3072, 768},  {64, 4096, 1024}, {250, 270, 290}};
  std::vector<record::Case> cases;
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const Size& size : sizes) cases.push_back(make_case(size, fmt::format("dtype={}", dtype)));
  }
  for (const char* more : {"layout=nt", "layout=tn", "layout=tt", "bias=1 activation=gelu", "batch=4"}) {
    cases.push_back(make_case({512, 512, 512}, more));
  }
  return cases;
}

// One call of a plain triple loop (1 to 2 GFLOP/s) stays below 60 ms.
std::vector<record::Case> target_cases() {
  const Size sizes[] = {{256, 256, 256}, {384, 256, 320}, {192, 512, 256}, {320, 320, 320}, {250, 270, 290}};
  std::vector<record::Case> cases;
  for (const Size& size : sizes) cases.push_back(make_case(size, "dtype=f32 layout=nn"));
  return cases;
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend) {
  switch (set) {
    case CaseSet::kCheck: return check_cases();
    case CaseSet::kBench: return bench_cases();
    case CaseSet::kTarget: return target_cases();
  }
  return {};
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kM, kN, kK};
  return vary_sizes(problem, kSizes, 40, variation, seed);
}

}  // namespace ridge::ops::gemm
