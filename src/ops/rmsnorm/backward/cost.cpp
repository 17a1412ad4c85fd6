#include "ops/rmsnorm/backward/backward.h"

namespace ridge::ops::rmsnorm_backward {

record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  record::Cost cost;
  cost.flop =
      ((s.dx ? 7.0 : 0.0) + (s.dweight ? 3.0 : 0.0)) * static_cast<double>(s.rows) * static_cast<double>(s.cols);
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  return cost;
}

}  // namespace ridge::ops::rmsnorm_backward
