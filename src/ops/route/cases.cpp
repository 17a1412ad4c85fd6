#include <fmt/format.h>

#include <array>

#include "ops/route/route.h"

namespace ridge::ops::route {
namespace {

using Size = std::array<std::int64_t, 3>;

record::Case case_of(std::string_view op, const Size& size, std::string_view more) {
  return built_in_case(fmt::format("{} tokens={} experts={} top={} {}", op, size[0], size[1], size[2], more));
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  if (set != CaseSet::kCheck) return timed_cases("route", set, backend, true);
  std::vector<record::Case> cases;
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    // 23 experts at most: the check of gradients has as many different numbers.
    for (const char* more : {"", "renormalize=1", "bias=1 renormalize=1", "score=sigmoid bias=1 renormalize=1",
                             "score=sigmoid", "order=top_first", "order=top_first bias=1 score=sigmoid"}) {
      cases.push_back(case_of("route", {37, 23, 4}, fmt::format("dtype={} {}", dtype, more)));
    }
    for (const char* more : {"score=sigmoid bias=1 renormalize=1", "score=softmax", "order=top_first bias=1"}) {
      cases.push_back(case_of("route", {130, 64, 6}, fmt::format("dtype={} groups=8 group_top=3 {}", dtype, more)));
    }
  }
  for (const Size& size : {Size{0, 8, 2}, Size{1, 8, 2}, Size{21, 1, 1}, Size{13, 7, 7}, Size{9, 512, 8},
                           Size{5, 300, 64}, Size{40, 40, 40}}) {
    for (const char* more : {"renormalize=1", "score=sigmoid bias=1", "order=top_first"}) {
      cases.push_back(case_of("route", size, more));
    }
  }
  for (const char* more : {"groups=12 group_top=5", "groups=12 group_top=12 bias=1", "groups=6 group_top=4 bias=1",
                           "groups=1 group_top=1 bias=1"}) {
    cases.push_back(case_of("route", {33, 12, 5}, fmt::format("{} score=sigmoid renormalize=1", more)));
  }
  return cases;
}

std::vector<record::Case> timed_cases(std::string_view op, CaseSet set, Backend backend, bool choice) {
  const std::int64_t tokens = backend == Backend::kCpu ? 1024 : 16384;
  std::vector<record::Case> cases;
  cases.push_back(case_of(op, {tokens, 256, 8},
                          fmt::format("score=sigmoid renormalize=1{}", choice ? " bias=1 groups=8 group_top=4" : "")));
  if (set == CaseSet::kTarget) return cases;
  cases.push_back(case_of(op, {tokens, 128, 8}, "renormalize=1"));
  cases.push_back(case_of(op, {tokens, 8, 2}, "renormalize=1"));
  cases.push_back(case_of(op, {tokens, 128, 4}, "order=top_first"));
  return cases;
}

// Experts stay where fewer of them would not do.
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kTokens, kExperts};
  record::Case other = vary_sizes(problem, kSizes, 40, variation, seed);
  const Shape s = shape_of(problem);
  if (s.groups > 1 || std::stoll(std::string(other.get("experts"))) < s.top) {
    other.set("experts", std::to_string(s.experts));
  }
  return other;
}

}  // namespace ridge::ops::route
