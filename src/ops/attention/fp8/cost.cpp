#include "ops/attention/fp8/fp8.h"

namespace ridge::ops::attention_fp8 {

record::Cost cost(const Problem& problem) { return attention::cost_of(problem, shape_of(problem)); }

}  // namespace ridge::ops::attention_fp8
