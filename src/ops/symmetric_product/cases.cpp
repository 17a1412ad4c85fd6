#include <fmt/format.h>

#include <array>

#include "ops/symmetric_product/symmetric_product.h"

namespace ridge::ops::symmetric_product {
namespace {

using Size = std::array<std::int64_t, 2>;  // n, k

record::Case make_case(const Size& size, std::string_view more) {
  return built_in_case(fmt::format("symmetric_product n={} k={} {}", size[0], size[1], more));
}

// Around the bands of rows (64 and more), the tiles of GPUs (64, 128, 256), and nothing at all.
std::vector<record::Case> check_cases() {
  const Size sizes[] = {{0, 5},   {7, 0},     {1, 1},    {1, 37},   {13, 31},   {33, 31}, {64, 64},  {65, 40}, {97, 83},
                        {72, 96}, {128, 128}, {130, 72}, {136, 33}, {200, 136}, {257, 9}, {264, 48}, {193, 64}};
  std::vector<record::Case> cases;
  for (const char* layout : {"n", "t"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const Size& size : sizes) {
        cases.push_back(make_case(size, fmt::format("dtype={} layout={}", dtype, layout)));
      }
      for (const Size& size : {Size{136, 72}, Size{97, 65}, Size{64, 0}}) {
        cases.push_back(make_case(size, fmt::format("dtype={} layout={} residual=1", dtype, layout)));
      }
    }
    for (const char* dtype : {"bf16", "f16"}) {
      cases.push_back(make_case({140, 70}, fmt::format("dtype={} out=f32 layout={}", dtype, layout)));
      cases.push_back(make_case({136, 270}, fmt::format("dtype={} out=f32 layout={} residual=1", dtype, layout)));
    }
  }
  for (const char* more : {"batch=3", "batch=0", "batch=2 residual=1", "batch=3 residual=1 layout=t"}) {
    cases.push_back(make_case({136, 40}, fmt::format("dtype=bf16 {}", more)));
    cases.push_back(make_case({37, 41}, fmt::format("dtype=f32 {}", more)));
  }
  cases.push_back(make_case({530, 301}, "dtype=bf16 residual=1"));
  return cases;
}

// The Gram matrices of weights of language models, and their squares, as the steps of Newton and Schulz want them; on a
// processor cut to its size.
std::vector<record::Case> bench_cases(Backend backend) {
  std::vector<Size> sizes = {{512, 512}, {1024, 1024}, {1024, 4096}, {2048, 2048}};
  if (backend == Backend::kCuda) {
    sizes = {{2048, 2048}, {4096, 4096}, {8192, 8192}, {16384, 16384}, {4096, 14336}, {8192, 28672}};
  }
  std::vector<record::Case> cases;
  for (const Size& size : sizes) {
    cases.push_back(make_case(size, "dtype=bf16"));
    cases.push_back(make_case(size, "dtype=bf16 layout=t"));
    if (size[0] == size[1]) cases.push_back(make_case(size, "dtype=bf16 residual=1"));
  }
  cases.push_back(make_case(sizes[0], "dtype=bf16 residual=1 batch=8"));
  if (backend == Backend::kCpu) {
    for (const Size& size : sizes) cases.push_back(make_case(size, "dtype=f32"));
  }
  return cases;
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  return set == CaseSet::kCheck ? check_cases() : bench_cases(backend);
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kN, kK};
  return vary_sizes(problem, kSizes, 40, variation, seed);
}

}  // namespace ridge::ops::symmetric_product
