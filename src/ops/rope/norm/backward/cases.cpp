#include "ops/rope/norm/backward/backward.h"

namespace ridge::ops::rope_norm_backward {

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  return rope_norm::cases_of("rope_norm_backward", set, backend);
}

}  // namespace ridge::ops::rope_norm_backward
