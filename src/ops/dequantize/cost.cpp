#include "ops/dequantize/dequantize.h"

namespace ridge::ops::dequantize {

record::Cost cost(const Problem& problem) {
  record::Cost cost;
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  cost.flop = static_cast<double>(problem.operands[2].element_count());
  return cost;
}

}  // namespace ridge::ops::dequantize
