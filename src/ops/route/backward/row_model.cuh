// route_backward for the checks on the host and on a GPU: operands logits, experts, dweights, dlogits. Stands behind
// power.cuh.
namespace ridge::ops::route_backward {

struct RowModel {
  rows::i64 sigmoid, top_first, renormalize, top;
  double scale;

  // Operands.
  static constexpr rows::i64 kLogit = 0, kExpert = 1, kSlope = 2;
  // Of the powers the largest logit and their sum; the factor of a gradient and what is taken off it; the sum of the
  // gradients of the scores, each times its score.
  enum Statistic { kMost, kSum, kFactor, kOff, kDot };
  static constexpr int kStatistics = 5;

  template <class Row>
  RIDGE_ROWS rows::i64 chosen(const Row& row, rows::i64 k) const {
    return static_cast<rows::i64>(rows::Number(row(kExpert, row.index() * top + k)).value);
  }
  template <class Row>
  RIDGE_ROWS rows::Number slope(const Row& row, rows::i64 k) const {
    return row(kSlope, row.index() * top + k);
  }
  // The score of a logit.
  template <class T>
  RIDGE_ROWS T score(const T& logit, const T* s) const {
    return sigmoid != 0 ? rows::sigmoid(logit) : T(route::power(logit, s[kMost]) / s[kSum]);
  }

  // The fp32 sum of a term of each choice.
  template <class Term>
  RIDGE_ROWS rows::Number sum_of_choices(const Term& term) const {
    rows::Sum sum;
    for (rows::i64 k = 0; k < top; ++k) sum.add(term(k));
    return rows::total(static_cast<double>(top), sum);
  }

  template <class Row>
  RIDGE_ROWS void statistics(const Row& row, rows::Number* s) const {
    using rows::Number;
    const auto logit = [&](rows::i64 k) -> Number { return row(kLogit, chosen(row, k)); };
    const auto any = [&](rows::i64 j) -> Number { return row(kLogit, j); };
    s[kMost] = s[kSum] = s[kOff] = Number(0.0);
    if (sigmoid == 0 && top_first == 0) {
      s[kMost] = rows::largest(row, any);
      s[kSum] = rows::sum(row, [&](rows::i64 j) { return route::power(any(j), s[kMost]); });
    } else if (sigmoid == 0) {
      s[kMost] = logit(0);
      for (rows::i64 k = 1; k < top; ++k) s[kMost] = rows::larger(logit(k), s[kMost]);
      s[kSum] = sum_of_choices([&](rows::i64 k) { return route::power(logit(k), s[kMost]); });
    }
    s[kFactor] = Number(scale);
    if (renormalize != 0) {
      const Number sum =
          sum_of_choices([&](rows::i64 k) { return score(logit(k), s); }) + rows::rounded(Number(route::kBesideSum));
      s[kFactor] = Number(scale) / sum;
      s[kOff] = sum_of_choices([&](rows::i64 k) { return slope(row, k) * (score(logit(k), s) / sum); });
    }
    s[kDot] = sum_of_choices([&](rows::i64 k) { return s[kFactor] * (slope(row, k) - s[kOff]) * score(logit(k), s); });
  }

  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T* s, int, rows::i64 column) const {
    T gradient(0.0);
    bool any = false;
    for (rows::i64 k = 0; k < top; ++k) {
      if (chosen(row, k) != column) continue;
      T one = s[kFactor] * (T(row(kSlope, row.index() * top + k)) - s[kOff]);
      if (sigmoid == 0 && top_first != 0) one = one - s[kDot];  // of each, where an expert is named twice
      gradient = any ? gradient + one : one;
      any = true;
    }
    if (!any && (sigmoid != 0 || top_first != 0)) return T(0.0);
    const T logit = T(row(kLogit, column));
    if (sigmoid != 0) return gradient * rows::sigmoid(logit) * rows::sigmoid(-logit);
    return score(logit, s) * (top_first != 0 ? gradient : T(gradient - s[kDot]));
  }
};

}  // namespace ridge::ops::route_backward
