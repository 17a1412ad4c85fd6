#include "ops/rmsnorm/rmsnorm.h"

namespace ridge::ops::rmsnorm {

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  constexpr const char* kForms[] = {"weight=none", "weight=same", "weight=f32 zero_centred=1", "weight=same residual=1",
                                    "weight=f32 residual=1 zero_centred=1 rstd=0"};
  return row_norm::cases(kKind.op, kForms, set, backend);
}

}  // namespace ridge::ops::rmsnorm
