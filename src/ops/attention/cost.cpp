#include "ops/attention/attention.h"

namespace ridge::ops::attention {

// Causal: the last query sees k_len keys, the one before it one less, down to
// one or to the first query.
double visible_pairs(const Shape& s) {
  const auto q = static_cast<double>(s.q_len), k = static_cast<double>(s.k_len);
  if (!s.causal) return q * k;
  const double rows = std::min(q, k);
  return rows * k - rows * (rows - 1) / 2;
}

record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  record::Cost cost;
  if (s.batch == 0 || s.heads == 0 || s.q_len == 0) return cost;
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  cost.flop =
      4 * static_cast<double>(s.dim) * static_cast<double>(s.batch) * static_cast<double>(s.heads) * visible_pairs(s);
  return cost;
}

}  // namespace ridge::ops::attention
