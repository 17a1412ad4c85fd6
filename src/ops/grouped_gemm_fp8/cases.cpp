#include <fmt/format.h>

#include <array>

#include "ops/grouped_gemm_fp8/grouped_gemm_fp8.h"

namespace ridge::ops::grouped_gemm_fp8 {
namespace {

using Size = std::array<std::int64_t, 4>;  // rows, groups, depth, n

record::Case make_case(const Size& size, std::string_view along, std::string_view more) {
  const char* const depth = along == "sums" ? "m" : "k";
  return built_in_case(fmt::format("grouped_gemm_fp8 rows={} groups={} {}={} n={} along={} {}", size[0], size[1], depth,
                                   size[2], size[3], along, more));
}

// Around the blocks of 128, groups of all sizes, and nothing at all.
std::vector<record::Case> check_cases() {
  const Size rows[] = {{0, 3, 8, 8},    {5, 1, 3, 4},     {40, 2, 0, 9},     {40, 2, 7, 0},      {1, 4, 16, 16},
                       {33, 7, 129, 5}, {130, 5, 64, 40}, {90, 3, 272, 136}, {64, 130, 136, 24}, {210, 4, 150, 264}};
  const Size sums[] = {{0, 3, 8, 8},     {128, 1, 3, 4},    {100, 2, 5, 9},     {256, 2, 0, 7},   {384, 2, 7, 0},
                       {640, 7, 17, 31}, {512, 3, 130, 40}, {1300, 9, 16, 136}, {896, 40, 33, 8}, {300, 4, 64, 65}};
  std::vector<record::Case> cases;
  for (const bool along_sums : {false, true}) {
    const char* const along = along_sums ? "sums" : "rows";
    for (const Size& size : along_sums ? sums : rows) {
      for (const char* out : {"f32", "bf16"}) cases.push_back(make_case(size, along, fmt::format("out={}", out)));
    }
    const Size mixed = along_sums ? Size{700, 3, 40, 72} : Size{70, 3, 200, 72};
    for (const char* dtype : {"e5m2", "e4m3fn_e5m2", "e5m2_e4m3fn"}) {
      cases.push_back(make_case(mixed, along, fmt::format("dtype={} out=f16 offsets=i64", dtype)));
    }
  }
  for (const char* scaling : {"row", "tensor"}) {
    for (const Size& size : {Size{5, 1, 3, 4}, Size{33, 7, 129, 5}, Size{0, 3, 8, 8}, Size{90, 3, 272, 136}}) {
      cases.push_back(make_case(size, "rows", fmt::format("out=f32 scaling={}", scaling)));
    }
    for (const Size& size : {Size{128, 1, 3, 4}, Size{640, 7, 17, 31}, Size{0, 3, 8, 8}, Size{512, 3, 130, 40}}) {
      cases.push_back(make_case(size, "sums", fmt::format("dtype=e5m2_e4m3fn scaling={}", scaling)));
    }
    cases.push_back(make_case({900, 5, 48, 56}, "sums", fmt::format("out=f32 accumulate=1 scaling={}", scaling)));
  }
  // Fewer sources than rows and more, one alone, and none at all.
  for (const char* scaling : {"block", "row", "tensor"}) {
    for (const Size& size : {Size{33, 7, 129, 5}, Size{130, 5, 64, 40}, Size{300, 3, 272, 136}, Size{0, 3, 8, 8}}) {
      for (const char* sources : {"1", "50", "700"}) {
        cases.push_back(
            make_case(size, "rows", fmt::format("out=f32 scaling={} gather=1 sources={}", scaling, sources)));
      }
    }
    const Size mixed{210, 4, 150, 264};
    cases.push_back(
        make_case(mixed, "rows", fmt::format("dtype=e5m2_e4m3fn offsets=i64 scaling={} gather=1", scaling)));
  }
  for (const char* out : {"bf16", "f16", "f32"}) {
    cases.push_back(make_case({900, 5, 48, 56}, "sums", fmt::format("out={} accumulate=1", out)));
    cases.push_back(make_case({0, 3, 8, 16}, "sums", fmt::format("out={} accumulate=1", out)));
  }
  return cases;
}

// Experts of models that people train, cut to a processor's size there.
std::vector<record::Case> bench_cases(Backend backend) {
  std::vector<Size> sizes = {{1024, 8, 512, 1024}, {2048, 32, 256, 512}};
  if (backend == Backend::kCuda) {
    sizes = {{8192, 8, 4096, 14336}, {16384, 32, 7168, 4096}, {16384, 64, 2048, 1408}, {32768, 256, 7168, 4096}};
  }
  std::vector<record::Case> cases;
  for (const Size& size : sizes) {
    cases.push_back(make_case(size, "rows", ""));
    cases.push_back(make_case(size, "sums", ""));
    cases.push_back(make_case(size, "sums", "out=f32 accumulate=1"));
  }
  return cases;
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  return set == CaseSet::kCheck ? check_cases() : bench_cases(backend);
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  const std::size_t sizes[] = {kRows, shape_of(problem).along_sums ? kM : kK, kN};
  return vary_sizes(problem, sizes, 40, variation, seed);
}

}  // namespace ridge::ops::grouped_gemm_fp8
