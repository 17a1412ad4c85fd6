#include "ops/rmsnorm/rmsnorm.h"

namespace ridge::ops::rmsnorm {

record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  record::Cost cost;
  cost.flop = (s.residual ? 5.0 : 4.0) * static_cast<double>(s.rows) * static_cast<double>(s.cols);
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  return cost;
}

}  // namespace ridge::ops::rmsnorm
