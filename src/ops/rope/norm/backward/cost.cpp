#include "ops/rope/norm/backward/backward.h"

namespace ridge::ops::rope_norm_backward {

record::Cost cost(const Problem& problem) {
  const rope::Shape s = rope::tokens_of(problem);
  record::Cost cost;
  cost.flop = static_cast<double>(s.batch) * static_cast<double>(s.length) * static_cast<double>(s.heads + s.kv_heads) *
              (3.0 * static_cast<double>(s.rotary) + 13.0 * static_cast<double>(s.dim));
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  return cost;
}

}  // namespace ridge::ops::rope_norm_backward
