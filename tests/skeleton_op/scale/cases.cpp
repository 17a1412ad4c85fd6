#include "scale/scale.h"

namespace ridge::ops::scale {

std::vector<record::Case> cases(CaseSet set, Backend) {
  std::vector<record::Case> cases;
  const std::vector<int> sizes = set == CaseSet::kCheck ? std::vector{0, 1, 7, 8, 9, 1000} : std::vector{1 << 20};
  for (const int n : sizes) {
    record::Case one;
    one.op = "scale";
    one.set("n", std::to_string(n));
    one.set("alpha", "3");
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace ridge::ops::scale
