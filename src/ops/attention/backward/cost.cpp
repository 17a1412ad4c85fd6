#include "ops/attention/backward/backward.h"

namespace ridge::ops::attention_backward {

// Five products of a query and a key where the forward has two.
record::Cost cost(const Problem& problem) {
  const attention::Shape s = attention::shape_of(problem);
  record::Cost cost;
  if (s.batch == 0 || s.heads == 0) return cost;
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  cost.flop = 2 * static_cast<double>(3 * s.dim + 2 * s.v_dim) * static_cast<double>(s.batch) *
              static_cast<double>(s.heads) * attention::visible_pairs(s);
  return cost;
}

}  // namespace ridge::ops::attention_backward
