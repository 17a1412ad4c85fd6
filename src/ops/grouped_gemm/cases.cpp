#include <fmt/format.h>

#include <array>
#include <string>

#include "ops/grouped_gemm/grouped_gemm.h"

namespace ridge::ops::grouped_gemm {
namespace {

using Size = std::array<std::int64_t, 4>;  // rows, groups, depth, n

record::Case make_case(const Size& size, std::string_view layout, std::string_view more) {
  const char* const depth = layout.starts_with("tn") ? "m" : "k";
  return built_in_case(fmt::format("grouped_gemm rows={} groups={} {}={} n={} layout={} {}", size[0], size[1], depth,
                                   size[2], size[3], layout, more));
}

std::vector<record::Case> check_cases() {
  const Size sizes[] = {{0, 3, 8, 8},   {5, 1, 3, 4},      {40, 2, 0, 9},     {40, 2, 7, 0},      {1, 4, 16, 16},
                        {33, 7, 17, 5}, {130, 5, 64, 40},  {257, 3, 72, 136}, {64, 130, 8, 24},   {300, 4, 33, 65},
                        {96, 6, 1, 31}, {200, 16, 40, 96}, {129, 1, 128, 64}, {515, 9, 200, 264}, {1000, 2, 24, 16}};
  std::vector<record::Case> cases;
  for (const char* layout : {"nn", "nt", "tn"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const Size& size : sizes) cases.push_back(make_case(size, layout, fmt::format("dtype={}", dtype)));
    }
    for (const char* dtype : {"bf16", "f16"}) {
      cases.push_back(make_case({210, 6, 80, 72}, layout, fmt::format("dtype={} out=f32 offsets=i64", dtype)));
    }
  }
  for (const char* more : {"dtype=f32", "dtype=bf16", "dtype=bf16 out=f32", "dtype=f16 offsets=i64"}) {
    cases.push_back(make_case({190, 5, 72, 88}, "tn", fmt::format("{} accumulate=1", more)));
    cases.push_back(make_case({0, 3, 8, 16}, "tn", fmt::format("{} accumulate=1", more)));
  }
  // Fewer sources than rows and more, one alone, and groups that end within a stage.
  const Size gathered[] = {{210, 6, 80, 72}, {130, 3, 200, 264}, {300, 4, 33, 65}, {1, 2, 16, 16}};
  for (const char* form : {"nn gather=a", "nt gather=a", "tn gather=a", "tn gather=b"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const Size& size : gathered) {
        for (const char* sources : {"1", "50", "700"}) {
          cases.push_back(make_case(size, form, fmt::format("dtype={} sources={}", dtype, sources)));
        }
      }
    }
  }
  // Columns that end within a tile, a slab and a vector; rows of all lengths.
  const Size gated[] = {{0, 3, 8, 8},   {5, 1, 3, 4},     {40, 2, 0, 10},    {40, 2, 8, 0},   {1, 4, 16, 16},
                        {33, 7, 17, 6}, {130, 5, 64, 40}, {257, 3, 72, 144}, {64, 70, 40, 96}};
  for (const char* epilogue : {"swiglu", "swiglu_backward"}) {
    const auto add = [&](const Size& size, const char* form, const char* more) {
      cases.push_back(make_case(size, form, fmt::format("{} epilogue={}", more, epilogue)));
    };
    for (const Size& size : gated) {
      add(size, "nt", "dtype=bf16");
      add(size, "nn probs=1", "dtype=f32");
    }
    for (const char* more : {"dtype=bf16 probs=1", "dtype=f16", "dtype=f16 probs=1 offsets=i64"}) {
      add({210, 6, 80, 72}, "nn", more);
      add({140, 3, 136, 272}, "nt", more);
      add({210, 6, 80, 72}, "nt gather=a sources=50", more);
    }
  }
  for (const char* more :
       {"out=f32 gather=a", "out=f32 gather=b", "out=f32 gather=b sources=40 offsets=i64", "gather=a", "gather=b"}) {
    cases.push_back(make_case({190, 5, 72, 88}, "tn", fmt::format("dtype=bf16 accumulate=1 {}", more)));
  }
  return cases;
}

// Experts of models that people train, cut to a processor's size there.
std::vector<record::Case> bench_cases(Backend backend) {
  std::vector<Size> sizes = {{1024, 8, 512, 1024}, {2048, 32, 256, 512}};
  if (backend == Backend::kCuda) sizes = {{8192, 8, 4096, 14336}, {16384, 32, 7168, 4096}, {16384, 64, 2048, 1408}};
  std::vector<record::Case> cases;
  for (const Size& size : sizes) {
    for (const char* load : {"uniform", "skewed"}) {
      const std::string more = fmt::format("dtype=bf16 load={}", load);
      for (const char* layout : {"nt", "nn", "tn"}) cases.push_back(make_case(size, layout, more));
      cases.push_back(make_case(size, "nt", more + " epilogue=swiglu probs=1"));
      cases.push_back(make_case(size, "tn", more + " out=f32 accumulate=1"));
    }
  }
  return cases;
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  return set == CaseSet::kCheck ? check_cases() : bench_cases(backend);
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  const std::size_t sizes[] = {kRows, shape_of(problem).along_sums ? kM : kK, kN};
  record::Case varied = vary_sizes(problem, sizes, 40, variation, seed);
  if (shape_of(problem).epilogue != kSwiglu) return varied;
  const std::int64_t n = std::stoll(std::string(varied.get("n")));
  varied.set("n", std::to_string(n / 2 * 2));  // of gate and as many of up
  return varied;
}

}  // namespace ridge::ops::grouped_gemm
