#include "ops/cross_entropy/cross_entropy.h"

namespace ridge::ops::cross_entropy {

record::Cost cost_of(const Problem& problem, double per_element) {
  const Shape s = shape_of(problem);
  record::Cost cost;
  cost.flop = (per_element + (s.soft_cap ? 15 : 0)) * static_cast<double>(s.tokens) * static_cast<double>(s.vocabulary);
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  return cost;
}

record::Cost cost(const Problem& problem) { return cost_of(problem, problem.values[kDlogits] == 1 ? 20 : 15); }

}  // namespace ridge::ops::cross_entropy
