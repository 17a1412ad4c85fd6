#include "ops/layernorm/backward/backward.h"

namespace ridge::ops::layernorm_backward {

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  constexpr const char* kForms[] = {"weight=none dbias=0",
                                    "weight=none",
                                    "weight=same",
                                    "weight=same dbias=0",
                                    "weight=f32 zero_centred=1",
                                    "weight=same residual=1",
                                    "weight=f32 dweight=0 dbias=0",
                                    "weight=same dx=0",
                                    "weight=same dx=0 dweight=0"};
  return row_norm::cases(kKind.op, kForms, set, backend);
}

}  // namespace ridge::ops::layernorm_backward
