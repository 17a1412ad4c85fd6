#include "ops/activation/activation.h"

namespace ridge::ops::activation {

record::Cost cost_of(const Problem& problem, double per_element, double per_gate) {
  const Shape s = shape_of(problem);
  record::Cost cost;
  const double each = per_element + (s.gated ? per_gate : 0) + (s.probs ? 1 : 0);
  cost.flop = each * static_cast<double>(s.rows) * static_cast<double>(s.cols);
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  return cost;
}

record::Cost cost(const Problem& problem) {
  const ActivationFunction function = shape_of(problem).function;
  const bool relu = function == ActivationFunction::kRelu, relu2 = function == ActivationFunction::kRelu2;
  return cost_of(problem, relu ? 2 : relu2 ? 3 : 12, 1);
}

}  // namespace ridge::ops::activation
