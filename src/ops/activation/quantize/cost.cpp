#include "ops/activation/quantize/quantize.h"

namespace ridge::ops::activation_quantize {

record::Cost cost(const Problem& problem) {
  record::Cost cost = coding::cost_of(problem, coding_of(problem));
  cost.flop += activation::cost(problem).flop;
  return cost;
}

}  // namespace ridge::ops::activation_quantize
