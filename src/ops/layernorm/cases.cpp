#include "ops/layernorm/layernorm.h"

namespace ridge::ops::layernorm {

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  constexpr const char* kForms[] = {"weight=none",
                                    "weight=same",
                                    "weight=same bias=1",
                                    "weight=none bias=1",
                                    "weight=f32 bias=1 zero_centred=1",
                                    "weight=same residual=1",
                                    "weight=f32 bias=1 residual=1 zero_centred=1 statistics=0"};
  return row_norm::cases(kKind.op, kForms, set, backend);
}

}  // namespace ridge::ops::layernorm
