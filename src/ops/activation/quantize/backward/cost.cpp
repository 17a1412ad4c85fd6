#include "ops/activation/backward/backward.h"
#include "ops/activation/quantize/backward/backward.h"

namespace ridge::ops::activation_quantize_backward {

record::Cost cost(const Problem& problem) {
  record::Cost cost = coding::cost_of(problem, coding_of(problem));
  cost.flop += activation_backward::cost(problem).flop;
  return cost;
}

}  // namespace ridge::ops::activation_quantize_backward
