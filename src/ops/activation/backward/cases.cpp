#include "ops/activation/backward/backward.h"

namespace ridge::ops::activation_backward {

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  std::vector<record::Case> cases = activation::cases_of("activation_backward", set, backend);
  if (set != CaseSet::kCheck) return cases;
  for (const char* wanted : {"dup=0", "dx=0 dup=0", "dx=0 dprobs=0", "dup=0 dprobs=0"}) {
    cases.push_back(built_in_case(std::string("activation_backward rows=9 cols=70 probs=1 ") + wanted));
  }
  return cases;
}

}  // namespace ridge::ops::activation_backward
