#include "ops/adamw/quantize/quantize.h"

namespace ridge::ops::adamw_quantize {

record::Cost cost(const Problem& problem) {
  const coding::Coding c = coding_of(problem);
  record::Cost cost = coding::cost_of(problem, c);
  if (cost.flop == 0) return cost;
  cost.flop += 16.0 * static_cast<double>(c.rows) * static_cast<double>(c.cols);
  for (const OperandSpec& operand : problem.operands) {  // once more: they are read and written
    if (operand.read_write) cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  return cost;
}

}  // namespace ridge::ops::adamw_quantize
