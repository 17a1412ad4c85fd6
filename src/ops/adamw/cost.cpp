#include "ops/adamw/adamw.h"

namespace ridge::ops::adamw {

record::Cost cost(const Problem& problem) {
  record::Cost cost;
  cost.flop = 16.0 * static_cast<double>(count_of(problem));
  for (const OperandSpec& operand : problem.operands) {
    const double bytes = static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
    cost.bytes += operand.read_write ? 2 * bytes : bytes;
  }
  return cost;
}

}  // namespace ridge::ops::adamw
