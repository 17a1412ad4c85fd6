#include "ops/softmax/softmax.h"

namespace ridge::ops::softmax {

record::Cost cost_of(const Problem& problem, double per_element) {
  const Shape s = shape_of(problem);
  record::Cost cost;
  cost.flop = per_element * static_cast<double>(s.rows) * static_cast<double>(s.cols);
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  return cost;
}

record::Cost cost(const Problem& problem) { return cost_of(problem, 12); }

}  // namespace ridge::ops::softmax
