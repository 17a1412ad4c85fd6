#include "ops/softmax/backward/backward.h"

namespace ridge::ops::softmax_backward {

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  return softmax::cases_of("softmax_backward", set, backend);
}

}  // namespace ridge::ops::softmax_backward
