#include "ops/attention/attention.h"

namespace ridge::ops::attention {

namespace {

// Pairs of a query i of q and a key of k that is below i + before: the sum of what a key count grows to, query by
// query, from 0 up to k.
double pairs_below(double q, double k, double before) {
  const double none = std::clamp(-before, 0.0, q), all = std::clamp(k - before, none, q);  // queries up to these
  return (all - none) * before + (all * (all - 1) - none * (none - 1)) / 2 + (q - all) * k;
}

}  // namespace

// Keys before the end of a query's window, without those before its begin.
double visible_pairs(const Shape& s) {
  if (s.documents > 0) {
    Shape one = s;
    one.documents = 0, one.q_len /= s.documents, one.k_len /= s.documents;
    return visible_pairs(one) * static_cast<double>(s.documents);
  }
  const auto q = static_cast<double>(s.q_len), k = static_cast<double>(s.k_len);
  const double below_end =
      s.window.right < 0 ? q * k : pairs_below(q, k, static_cast<double>(s.place(s.window.right + 1)));
  return below_end - (s.window.left < 0 ? 0.0 : pairs_below(q, k, static_cast<double>(s.place(-s.window.left))));
}

record::Cost cost(const Problem& problem) { return cost_of(problem, shape_of(problem)); }

record::Cost cost_of(const Problem& problem, const Shape& s) {
  record::Cost cost;
  if (s.batch == 0 || s.heads == 0 || s.q_len == 0) return cost;
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  cost.flop = 2 * static_cast<double>(s.dim + s.v_dim) * static_cast<double>(s.batch) * static_cast<double>(s.heads) *
              visible_pairs(s);
  return cost;
}

}  // namespace ridge::ops::attention
