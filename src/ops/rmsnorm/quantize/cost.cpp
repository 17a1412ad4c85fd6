#include "ops/rmsnorm/quantize/quantize.h"

namespace ridge::ops::rmsnorm_quantize {

record::Cost cost(const Problem& problem) {
  record::Cost cost = coding::cost_of(problem, coding_of(problem));
  cost.flop += row_norm::cost(problem, has_residual(problem) ? 5 : 4).flop;
  return cost;
}

}  // namespace ridge::ops::rmsnorm_quantize
