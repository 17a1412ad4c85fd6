#include "ops/rope/rope.h"

namespace ridge::ops::rope {

record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  record::Cost cost;
  cost.flop = 3.0 * static_cast<double>(s.batch) * static_cast<double>(s.length) *
              static_cast<double>(s.heads + s.kv_heads) * static_cast<double>(s.rotary);
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  return cost;
}

}  // namespace ridge::ops::rope
