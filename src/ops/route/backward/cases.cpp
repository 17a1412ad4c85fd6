#include <fmt/format.h>

#include <array>

#include "ops/route/backward/backward.h"

namespace ridge::ops::route_backward {

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  if (set != CaseSet::kCheck) return route::timed_cases("route_backward", set, backend, false);
  using Size = std::array<std::int64_t, 3>;
  std::vector<record::Case> cases;
  const auto add = [&](const Size& size, std::string_view more) {
    cases.push_back(
        built_in_case(fmt::format("route_backward tokens={} experts={} top={} {}", size[0], size[1], size[2], more)));
  };
  constexpr const char* kForms[] = {"",
                                    "renormalize=1",
                                    "score=sigmoid",
                                    "score=sigmoid renormalize=1",
                                    "order=top_first",
                                    "order=top_first renormalize=1",
                                    "order=top_first score=sigmoid"};
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* form : kForms) add({37, 67, 5}, fmt::format("dtype={} {}", dtype, form));
  }
  for (const Size& size : {Size{0, 8, 2}, Size{1, 8, 2}, Size{21, 1, 1}, Size{13, 7, 7}, Size{9, 512, 8},
                           Size{5, 300, 64}, Size{140, 16, 2}}) {
    for (const char* form : {"renormalize=1", "score=sigmoid", "order=top_first"}) add(size, form);
  }
  return cases;
}

}  // namespace ridge::ops::route_backward
