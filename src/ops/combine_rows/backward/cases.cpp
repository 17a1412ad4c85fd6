#include "ops/combine_rows/backward/backward.h"

namespace ridge::ops::combine_rows_backward {

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  constexpr const char* kNone[] = {""};
  return combine_rows::cases_of("combine_rows_backward", set, backend, kNone);
}

}  // namespace ridge::ops::combine_rows_backward
