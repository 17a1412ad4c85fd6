#include <algorithm>

#include "scale/scale.h"

namespace ridge::ops::scale {

std::vector<record::Case> cases(CaseSet set, Backend) {
  std::vector<record::Case> cases;
  const std::vector<int> sizes = set == CaseSet::kCheck ? std::vector{0, 1, 7, 8, 9, 1000} : std::vector{1 << 20};
  for (const int n : sizes) {
    for (const char* alpha : {"3", "-0.1"}) {
      record::Case one;
      one.op = "scale";
      one.set("n", std::to_string(n));
      one.set("alpha", alpha);
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  const std::int64_t most =
      variation == Variation::kReduced ? std::min<std::int64_t>(problem.values[kN], 40) : problem.values[kN];
  record::Case other = problem.problem_case;
  const auto choices = static_cast<std::uint64_t>(std::max<std::int64_t>(1, most / 4));
  other.set("n", std::to_string(std::max<std::int64_t>(most - static_cast<std::int64_t>(seed % choices), 0)));
  return other;
}

}  // namespace ridge::ops::scale
