#include <fmt/format.h>

#include <array>
#include <string>

#include "ops/grouped_quantize/grouped_quantize.h"

namespace ridge::ops::grouped_quantize {
namespace {

using Size = std::array<std::int64_t, 3>;  // rows, groups, cols

record::Case make_case(const Size& size, std::string_view more) {
  return built_in_case(fmt::format("grouped_quantize rows={} groups={} cols={} {}", size[0], size[1], size[2], more));
}

// What is made of rows, in every dtype, padded and where the rows lie; halves that are no multiples of a tile or of
// what a thread has, factors of rows and none.
void add_made(std::vector<record::Case>& cases) {
  for (const Size& size : {Size{0, 2, 6}, Size{5, 3, 2}, Size{130, 1, 132}, Size{37, 5, 300}, Size{150, 4, 144}}) {
    for (const char* form :
         {"own_rows=1", "of=swiglu probs=1 own_rows=1", "of=swiglu_backward probs=1 dprobs=1 own_rows=1",
          "of=swiglu scaling=mx own_rows=1", "of=swiglu_backward align=128"}) {
      cases.push_back(make_case(size, fmt::format("copies=both {}", form)));
    }
  }
  for (const char* dtype : {"f32", "f16"}) {
    for (const char* of : {"swiglu", "swiglu_backward"}) {
      for (const char* form : {"copies=both own_rows=1 probs=1", "copies=both own_rows=1 scaling=mx format=e5m2",
                               "copies=column scaling=row scale=ceil", "scaling=tensor align=16 copies=both probs=1",
                               "scaling=tensor amax=given copies=both", "scaling=128x128 copies=both offsets=i64",
                               "copies=row align=16", "copies=both own_rows=1 rounding=stochastic"}) {
        cases.push_back(make_case({67, 3, 134}, fmt::format("dtype={} of={} {}", dtype, of, form)));
      }
    }
    for (const char* form : {"copies=both own_rows=1", "copies=row scaling=row", "scaling=128x128 offsets=i64"}) {
      cases.push_back(
          make_case({67, 3, 134}, fmt::format("dtype={} of=swiglu_backward probs=1 dprobs=1 {}", dtype, form)));
    }
  }
}

// Nothing at all, a group, more groups than rows, groups of one row and of many blocks; each padding with each
// granularity that it goes with.
std::vector<record::Case> check_cases() {
  const Size sizes[] = {{0, 3, 5},     {5, 2, 0},    {1, 1, 1},     {9, 40, 33},
                        {130, 1, 131}, {37, 5, 300}, {300, 3, 129}, {128, 2, 128}};
  std::vector<record::Case> cases;
  for (const Size& size : sizes) {
    for (const char* form : {"scaling=1x128 copies=both", "scaling=1x128 align=16", "scaling=mx copies=both align=32",
                             "scaling=128x128 copies=both offsets=i64", "scaling=row align=16 offsets=i64",
                             "scaling=row copies=both", "scaling=tensor align=16 copies=both"}) {
      cases.push_back(make_case(size, form));
    }
  }
  for (const char* dtype : {"f32", "f16"}) {
    for (const char* form : {"scaling=1x128 copies=both format=e5m2", "scaling=1x128 copies=column scale=ceil",
                             "scaling=mx copies=column align=64", "scaling=tensor amax=given copies=both align=32",
                             "scaling=row align=32 format=e5m2 scale=even", "scaling=row copies=column scale=floor",
                             "scaling=128x128 scale=floor"}) {
      cases.push_back(make_case({150, 4, 140}, fmt::format("dtype={} {}", dtype, form)));
    }
  }
  for (const char* form :
       {"scaling=1x128 copies=both", "scaling=row copies=both", "scaling=tensor copies=both align=16"}) {
    cases.push_back(make_case({67, 3, 133}, fmt::format("rounding=stochastic {}", form)));
  }
  for (const Size& size : {Size{0, 2, 6}, Size{1, 1, 1}, Size{130, 2, 131}, Size{37, 5, 300}, Size{150, 4, 144}}) {
    for (const char* form : {"copies=both own_rows=1 sources=11", "copies=both sources=40 offsets=i64",
                             "scaling=row copies=both sources=1 dtype=f32", "scaling=tensor align=16 sources=0"}) {
      cases.push_back(make_case(size, fmt::format("gather=1 {}", form)));
    }
  }
  add_made(cases);
  return cases;
}

// Tokens of experts of models that people train, cut to a processor's size there.
std::vector<record::Case> bench_cases(Backend backend) {
  std::vector<Size> sizes = {{1024, 8, 1024}, {1024, 32, 512}};
  if (backend == Backend::kCuda) sizes = {{16384, 8, 4096}, {16384, 32, 7168}, {32768, 64, 2048}};
  std::vector<record::Case> cases;
  for (const Size& size : sizes) {
    for (const char* form :
         {"scaling=1x128 copies=both", "scaling=1x128 copies=row", "scaling=mx copies=both align=32",
          "scaling=row align=16", "scaling=row copies=column scale=floor", "scaling=1x128 copies=both own_rows=1",
          "copies=both own_rows=1 gather=1", "copies=both own_rows=1 of=swiglu probs=1",
          "copies=both own_rows=1 of=swiglu_backward probs=1 dprobs=1"}) {
      cases.push_back(make_case(size, form));
    }
  }
  return cases;
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  return set == CaseSet::kCheck ? check_cases() : bench_cases(backend);
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kRows, kCols};
  record::Case varied = vary_sizes(problem, kSizes, 150, variation, seed);
  const Shape s = shape_of(problem);
  const std::int64_t cols = std::stoll(varied.get("cols"));
  // Two halves.
  if (s.of == GroupedQuantizeOf::kSwigluBackward) varied.set("cols", std::to_string((cols + 1) / 2 * 2));
  return varied;
}

}  // namespace ridge::ops::grouped_quantize
