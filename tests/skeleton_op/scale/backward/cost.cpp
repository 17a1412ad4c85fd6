#include "scale/backward/backward.h"

namespace ridge::ops::scale_backward {

record::Cost cost(const Problem& problem) {
  record::Cost cost;
  for (const OperandSpec& operand : problem.operands) {
    const auto elements = static_cast<double>(operand.element_count());
    cost.bytes += 4 * elements;
    if (operand.output) cost.flop += 2 * elements;
  }
  return cost;
}

}  // namespace ridge::ops::scale_backward
