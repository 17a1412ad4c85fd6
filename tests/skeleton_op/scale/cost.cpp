#include "scale/scale.h"

namespace ridge::ops::scale {

record::Cost cost(const Problem& problem) {
  record::Cost cost;
  cost.flop = 3.0 * static_cast<double>(problem.values[kN]);
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  return cost;
}

}  // namespace ridge::ops::scale
