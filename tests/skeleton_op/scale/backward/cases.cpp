#include "scale/backward/backward.h"

namespace ridge::ops::scale_backward {

std::vector<record::Case> cases(CaseSet set, Backend) {
  std::vector<record::Case> cases;
  const std::vector<int> sizes = set == CaseSet::kCheck ? std::vector{0, 1, 7, 8, 9, 1000} : std::vector{1 << 20};
  for (const int n : sizes) {
    for (const char* words : {"alpha=3 gain=0 wanted=dx", "alpha=-0.1 gain=1 wanted=dx",
                              "alpha=0.3 gain=1 wanted=dgain", "alpha=1e-3 gain=1 wanted=both"}) {
      record::Case one = *record::parse_case(std::string("scale_backward ") + words);
      one.set("n", std::to_string(n));
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

}  // namespace ridge::ops::scale_backward
