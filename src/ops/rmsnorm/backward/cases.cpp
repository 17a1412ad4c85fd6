#include "ops/rmsnorm/backward/backward.h"

namespace ridge::ops::rmsnorm_backward {

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  constexpr const char* kForms[] = {"weight=none",
                                    "weight=same",
                                    "weight=f32 zero_centred=1",
                                    "weight=same residual=1",
                                    "weight=none residual=1",
                                    "weight=f32 wanted=dx",
                                    "weight=same wanted=dweight"};
  return row_norm::cases(kKind.op, kForms, set, backend);
}

}  // namespace ridge::ops::rmsnorm_backward
