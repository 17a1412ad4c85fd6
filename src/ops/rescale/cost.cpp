#include "ops/rescale/rescale.h"

namespace ridge::ops::rescale {

record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  record::Cost cost;
  cost.flop = static_cast<double>(s.rows) * static_cast<double>(s.cols);
  for (const OperandSpec& operand : problem.operands) {
    const double bytes = static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
    cost.bytes += operand.read_write ? 2 * bytes : bytes;
  }
  return cost;
}

}  // namespace ridge::ops::rescale
