#include "ops/quantize/quantize.h"

namespace ridge::ops::quantize {

record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  const auto elements = static_cast<double>(s.rows) * static_cast<double>(s.cols);
  record::Cost cost;
  if (elements == 0) return cost;
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  cost.flop = 2 * elements * static_cast<double>(copies_of(s).size());
  return cost;
}

}  // namespace ridge::ops::quantize
