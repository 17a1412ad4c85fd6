#include "ops/route/route.h"

namespace ridge::ops::route {

record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  record::Cost cost;
  cost.flop = 15.0 * static_cast<double>(s.tokens) * static_cast<double>(s.experts);
  for (const OperandSpec& spec : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(spec.dtype, spec.element_count()));
  }
  return cost;
}

}  // namespace ridge::ops::route
