#include <algorithm>

#include "scale/scale.h"

namespace ridge::ops::scale {

std::vector<record::Case> cases(CaseSet set, Backend) {
  std::vector<record::Case> cases;
  const std::vector<int> sizes = set == CaseSet::kCheck ? std::vector{0, 1, 7, 8, 9, 1000} : std::vector{1 << 20};
  for (const int n : sizes) {
    for (const char* words : {"alpha=3 gain=0 top=0", "alpha=-0.1 gain=1 top=0", "alpha=1e-3 gain=1 top=1"}) {
      record::Case one = *record::parse_case(std::string("scale ") + words);
      one.set("n", std::to_string(n));
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kN};
  return vary_sizes(problem, kSizes, 40, variation, seed);
}

}  // namespace ridge::ops::scale
