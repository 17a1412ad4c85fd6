#include "ops/matmul/matrix_unit.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ridge::ops {
namespace {

constexpr double kUnit = 0x1p-13;
constexpr std::int64_t kStep = 32;

// One row of C.
class Row {
 public:
  explicit Row(std::size_t n)
      : sum_(n), low_(n), high_(n), largest_(n), signs_(n), coherent_(n), spread_(n), lean_(n) {}

  // Adds `x` times a row of B, aligned by their weights.
  void add(double x, const double* b, double weight_x, const double* weight_b) {
    for (std::size_t j = 0; j < sum_.size(); ++j) {
      const double product = x * b[j], magnitude = std::abs(weight_x * weight_b[j]);
      sum_[j] += product;
      largest_[j] = magnitude > largest_[j] ? magnitude : largest_[j];
      signs_[j] += (product > 0 ? 1.0 : 0.0) - (product < 0 ? 1.0 : 0.0);
    }
  }

  void end_step(bool promoted) {
    for (std::size_t j = 0; j < sum_.size(); ++j) {
      const double partial = high_[j] - low_[j], u = kUnit * (partial > largest_[j] ? partial : largest_[j]);
      coherent_[j] += u * signs_[j] * signs_[j] / kStep;
      spread_[j] += u * u;
      lean_[j] += u * signs_[j];
      largest_[j] = signs_[j] = 0;
      low_[j] = promoted ? sum_[j] : std::min(low_[j], sum_[j]);
      high_[j] = promoted ? sum_[j] : std::max(high_[j], sum_[j]);
    }
  }

  void append(double steps, Truncation& to) const {
    for (std::size_t j = 0; j < sum_.size(); ++j) {
      const double allowed = coherent_[j] + 10 * std::sqrt(spread_[j]), lean = 0.36 * lean_[j];
      // Infinite terms: nothing is known of finite sums.
      to.allowed.push_back(std::isfinite(allowed) ? allowed : std::numeric_limits<double>::infinity());
      to.square.push_back(lean * lean + 1.5 * spread_[j] + coherent_[j] * coherent_[j] / (8 * steps));
      to.shift.push_back(std::abs(lean));
    }
  }

 private:
  std::vector<double> sum_, low_, high_, largest_, signs_, coherent_, spread_, lean_;
};

}  // namespace

Truncation matrix_unit_truncation(const ProductModel& model, const std::vector<double>& a,
                                  const std::vector<double>& b) {
  Truncation result;
  const std::vector<double>& weight_a = model.weight_a.empty() ? a : model.weight_a;
  const std::vector<double>& weight_b = model.weight_b.empty() ? b : model.weight_b;
  for (std::int64_t i = 0; i < model.m; ++i) {
    Row row(static_cast<std::size_t>(model.n));
    for (std::int64_t p = 0; p < model.k; ++p) {
      const auto at = static_cast<std::size_t>(i * model.k + p);
      row.add(a[at], b.data() + p * model.n, weight_a[at], weight_b.data() + p * model.n);
      if ((p + 1) % kStep == 0 || p + 1 == model.k) row.end_step((p + 1) % model.matrix_unit_terms == 0);
    }
    row.append(std::max(1.0, std::ceil(static_cast<double>(model.k) / kStep)), result);
  }
  return result;
}

// A step may cost a unit of the sum, and where one product towers over the others, one for each of the 33 addends;
// steps add up like independent errors. Each addend loses up to a unit of a partial sum, whose square is that of
// half the products before it moves to fp32.
ExpectedTruncation expected_truncation(const ProductModel& model) {
  constexpr double kAddends = 33;
  if (model.matrix_unit_terms == 0) return {};
  const auto k = static_cast<double>(model.k), part = static_cast<double>(std::min(model.k, model.matrix_unit_terms));
  const double steps = model.k > model.matrix_unit_terms ? 8 : k / kStep + 4;
  return {(1 + std::sqrt(steps) / 4) * kUnit, kAddends * std::sqrt(steps) * kUnit,
          kUnit * std::sqrt(kAddends / 3 * part / 2 / kStep)};
}

}  // namespace ridge::ops
