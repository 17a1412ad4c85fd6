// The definition as a row model, from which the full compare and the check after every launch are made.
#include <cmath>

#include "ops/route/backward/backward.h"
#include "ops/route/power.h"
#include "ops/row_check.h"

namespace ridge::ops::route_backward {
namespace {

using rows::Number;

struct RowModel {
  rows::i64 sigmoid, top_first, renormalize, top;
  double scale;

  // Of the powers the largest logit and their sum; the factor of a gradient and what is taken off it; the sum of the
  // gradients of the scores, each times its score.
  enum Statistic { kMost, kSum, kFactor, kOff, kDot };
  static constexpr int kStatistics = 5;

  template <class Row>
  [[nodiscard]] rows::i64 chosen(const Row& row, rows::i64 k) const {
    return static_cast<rows::i64>(Number(row(kExperts, row.index() * top + k)).value);
  }
  template <class Row>
  [[nodiscard]] Number slope(const Row& row, rows::i64 k) const {
    return row(kDweights, row.index() * top + k);
  }
  static double power(double x, double most) {
    return std::isinf(x) && x < 0 && std::isfinite(most) ? 0.0 : ::exp(x - most);
  }
  static Number power(const Number& x, const Number& most) { return route::power(x, most); }
  // The score of a logit.
  template <class T>
  [[nodiscard]] T score(const T& logit, const T* s) const {
    return sigmoid != 0 ? rows::sigmoid(logit) : T(power(logit, s[kMost]) / s[kSum]);
  }

  // The fp32 sum of so many terms.
  template <class Term>
  static Number sum_of(rows::i64 count, const Term& term) {
    rows::Sum sum;
    for (rows::i64 i = 0; i < count; ++i) sum.add(term(i));
    return rows::total(static_cast<double>(count), sum);
  }

  template <class Row>
  void statistics(const Row& row, Number* s) const {
    const auto logit = [&](rows::i64 k) -> Number { return row(kLogits, chosen(row, k)); };
    const auto any = [&](rows::i64 j) -> Number { return top_first != 0 ? logit(j) : Number(row(kLogits, j)); };
    const rows::i64 count = top_first != 0 ? top : row.columns();
    s[kMost] = Number(-HUGE_VAL), s[kSum] = Number(0.0);
    if (sigmoid == 0) {
      for (rows::i64 j = 0; j < count; ++j) s[kMost] = rows::larger(any(j), s[kMost]);
      s[kSum] = sum_of(count, [&](rows::i64 j) { return power(any(j), s[kMost]); });
    }
    s[kFactor] = Number(scale), s[kOff] = Number(0.0);
    if (renormalize != 0) {
      const Number sum = sum_of(top, [&](rows::i64 k) { return score(logit(k), s); }) + rows::rounded(route::kEpsilon);
      s[kFactor] = Number(scale) / sum;
      s[kOff] = sum_of(top, [&](rows::i64 k) { return slope(row, k) * (score(logit(k), s) / sum); });
    }
    s[kDot] = sum_of(top, [&](rows::i64 k) { return s[kFactor] * (slope(row, k) - s[kOff]) * score(logit(k), s); });
  }

  template <class Row, class T>
  [[nodiscard]] T element(const Row& row, const T* s, int, rows::i64 column) const {
    T gradient(0.0);
    bool any = false;
    for (rows::i64 k = 0; k < top; ++k) {
      if (chosen(row, k) != column) continue;
      T one = s[kFactor] * (T(row(kDweights, row.index() * top + k)) - s[kOff]);
      if (sigmoid == 0 && top_first != 0) one = one - s[kDot];  // of each, where an expert is named twice
      gradient = any ? gradient + one : one;
      any = true;
    }
    if (!any && (sigmoid != 0 || top_first != 0)) return T(0.0);
    const T logit = T(row(kLogits, column));
    if (sigmoid != 0) return gradient * rows::sigmoid(logit) * rows::sigmoid(-logit);
    return score(logit, s) * (top_first != 0 ? gradient : T(gradient - s[kDot]));
  }
};

auto row_model(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem);
  rows::Places place(problem);
  place("experts", rows::kShared);
  place("dweights", rows::kShared);
  return rows::model(std::move(place.reads), RowModel{s.sigmoid ? 1 : 0, s.top_first ? 1 : 0, s.renormalize ? 1 : 0,
                                                      s.top, arguments.scalar(problem, route::kScale).real()});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_CHECK_OK(check_experts(problem, arguments));
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  RIDGE_CHECK_OK(check_experts(problem, arguments));
  return rows::spot_check<row_model>(problem, arguments, seed);
}

}  // namespace ridge::ops::route_backward
