#include "ops/matmul/product.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "numerics/format.h"
#include "numerics/philox.h"
#include "numerics/projection.h"
#include "ops/matmul/matrix_unit.h"

namespace ridge::ops {

namespace {

using numerics::Projection;

// What is summed for one element, in the terms of the error model.
numerics::Reduction reduction_of(const ProductModel& s) { return {DType::kF32, s.out, s.k + (s.accumulate ? 1 : 0)}; }

}  // namespace

std::vector<double> transposed_copy(const std::vector<double>& x, std::int64_t rows, std::int64_t cols) {
  const auto height = static_cast<std::size_t>(rows), width = static_cast<std::size_t>(cols);
  std::vector<double> flipped(x.size());
  for (std::size_t i = 0; i < height; ++i) {
    for (std::size_t j = 0; j < width; ++j) flipped[j * height + i] = x[i * width + j];
  }
  return flipped;
}

std::vector<double> load_matrix(const TensorView& view, bool transposed) {
  std::vector<double> stored = numerics::to_doubles(view);
  return transposed ? transposed_copy(stored, view.shape[0], view.shape[1]) : stored;
}

ProductSums product_sums(const ProductModel& model, const std::vector<double>& a, const std::vector<double>& b,
                         std::vector<double> old) {
  const auto count = static_cast<std::size_t>(model.m * model.n);
  numerics::ProductMoments sums;
  sums.value = std::move(old);
  sums.value.resize(count, 0.0);
  sums.magnitude.resize(count);
  sums.squares.resize(count);
  for (std::size_t e = 0; e < count; ++e) {
    sums.magnitude[e] = std::abs(sums.value[e]);
    sums.squares[e] = sums.value[e] * sums.value[e];
  }
  numerics::add_product_moments(a, b, model.m, model.n, model.k, sums);
  const numerics::Reduction reduction = reduction_of(model);
  const double u = numerics::unit_roundoff(DType::kF32), length = static_cast<double>(reduction.length);
  ProductSums result;
  for (std::size_t e = 0; e < count; ++e) {
    result.allowed.push_back(numerics::accumulation_bound(reduction, sums.magnitude[e]) +
                             model.more_allowed * sums.magnitude[e]);
    result.square.push_back(u * u * length * (sums.squares[e] / 12 + sums.value[e] * sums.value[e] / 18) +
                            model.more_ideal_shared * model.more_ideal_shared * sums.magnitude[e] * sums.magnitude[e]);
  }
  // A rounded scale is off in the same direction wherever it serves.
  for (const double value : sums.value) result.shift.push_back(model.more_allowed * std::abs(value));
  if (model.matrix_unit_terms != 0) {
    const Truncation lost = matrix_unit_truncation(model, a, b);
    for (std::size_t e = 0; e < count; ++e) {
      result.allowed[e] += lost.allowed[e];
      result.square[e] += lost.square[e];
      result.shift[e] += lost.shift[e];
    }
  }
  result.value = std::move(sums.value);
  return result;
}

ReferenceOutput product_reference(const ProductModel& model, ProductSums sums) {
  ReferenceOutput c;
  for (std::size_t e = 0; e < sums.value.size(); ++e) {
    c.allowed.push_back(sums.allowed[e] + numerics::ulp(model.out, std::abs(sums.value[e]) + sums.allowed[e]) / 2);
    const double spacing = numerics::ulp(model.out, sums.value[e]);
    c.ideal_square.push_back(sums.square[e] + spacing * spacing / 12);
  }
  c.value = std::move(sums.value);
  c.shift = std::move(sums.shift);
  return c;
}

void append(const ReferenceOutput& part, ReferenceOutput& all) {
  all.value.insert(all.value.end(), part.value.begin(), part.value.end());
  all.allowed.insert(all.allowed.end(), part.allowed.begin(), part.allowed.end());
  all.ideal_square.insert(all.ideal_square.end(), part.ideal_square.begin(), part.ideal_square.end());
  all.shift.insert(all.shift.end(), part.shift.begin(), part.shift.end());
}

namespace {

// Random sign vectors r: C r is compared with A (B r). Two lines decide, as they do for single elements. Per row,
// |A| (|B| r) tells how large the difference may be; over all rows its mean square is held against the one that the
// ideal kernel is expected to leave, which needs A^2 (B^2 1) of squared elements.
Projection random_signs(std::uint64_t seed, std::int64_t count) {
  Projection r(static_cast<std::size_t>(count));
  for (std::size_t j = 0; j < r.size(); ++j) {
    const std::uint32_t bits = numerics::philox_word(seed, j);
    for (std::size_t l = 0; l < numerics::kLaneCount; ++l) r.lanes[j].value[l] = ((bits >> l) & 1u) != 0 ? 1.0 : -1.0;
    r.lanes[j].value[numerics::kLaneCount - 1] = 1.0;
    r.squares[j] = 1.0;
  }
  return r;
}

Projection projected(const TensorView& x, bool transposed, const Projection& v) {
  Projection y(static_cast<std::size_t>(x.shape[transposed ? 1 : 0]));
  numerics::add_projection(x, transposed, v, y);
  return y;
}

// sqrt(sum_j (|A| |B|)_ij^2) of one row: the mean of ((|A| (|B| r))_i)^2 over sign vectors r. Data of one sign projects
// to almost nothing by chance in a row or two, so the mean magnitude is a floor.
double magnitude_norm(const numerics::LaneSums& row, std::int64_t cols) {
  double squares = 0.0;
  for (std::size_t l = numerics::kSignedLanes; l + 1 < numerics::kLaneCount; ++l) {
    squares += row.value[l] * row.value[l] / static_cast<double>(numerics::kAbsoluteLanes - 1);
  }
  return std::max(std::sqrt(squares), row.value[numerics::kLaneCount - 1] / std::sqrt(static_cast<double>(cols)));
}

// Rounding errors of one row have independent signs under r, so they add as squares do.
double allowed_residual(const ProductModel& s, double row_square, const numerics::LaneSums& expected,
                        double term_squares) {
  const double rounding = numerics::unit_roundoff(s.out) * std::sqrt(row_square);
  const double norm = magnitude_norm(expected, s.n);
  const ExpectedTruncation lost = expected_truncation(s);
  return numerics::accumulation_bound(reduction_of(s), norm) + (s.more_allowed + lost.allowed) * norm +
         lost.allowed_root * std::sqrt(term_squares) + 3.0 * rounding +
         numerics::min_positive(s.out) / 2 * static_cast<double>(s.n);
}

// Expected square of the residual of one row: the sum of ideal_square_error over its elements, whose output rounding
// averages u^2 x^2 / 6 over the mantissas.
double ideal_residual_square(const ProductModel& s, double row_square, double term_squares, double norm) {
  const double u = numerics::unit_roundoff(DType::kF32), out = numerics::unit_roundoff(s.out);
  const double tiny = numerics::min_positive(s.out), lost = expected_truncation(s).ideal;
  return u * u * static_cast<double>(reduction_of(s).length) * (term_squares / 12 + row_square / 18) +
         lost * lost * term_squares + s.more_ideal_shared * s.more_ideal_shared * norm * norm +
         out * out * row_square / 6 + static_cast<double>(s.n) * tiny * tiny / 12;
}

// The worst of both lines. `finite` is false when C holds NaN or Inf.
class Residuals {
 public:
  Residuals(const std::string& label, const ProductModel& shape) : label_(label), shape_(shape) {}

  void add(std::size_t row, const Projection& found, const Projection& expected) {
    const double row_square = found.squares[row];
    const double allowed = allowed_residual(shape_, row_square, expected.lanes[row], expected.squares[row]);
    const double ideal =
        ideal_residual_square(shape_, row_square, expected.squares[row], magnitude_norm(expected.lanes[row], shape_.n));
    for (std::size_t l = 0; l < numerics::kSignedLanes; ++l) {
      const double residual = std::abs(found.lanes[row].value[l] - expected.lanes[row].value[l]);
      mean_square_ += residual * residual / ideal;
      if (residual <= worst_ * allowed) continue;
      worst_ = residual / allowed;
      result_.residual = residual;
      result_.allowed = allowed;
      result_.detail = fmt::format("{}: row {} of C is off by {:.3g} in a random projection, {:.3g} is allowed", label_,
                                   row, residual, allowed);
    }
    finite_ = finite_ && std::isfinite(row_square);
    const double first = expected.lanes[row].value[0];
    rows_.push_back(std::isnan(first) ? std::numeric_limits<double>::infinity() : first);
  }

  SpotCheck result() {
    result_.blind_factor = std::sqrt(static_cast<double>(std::max<std::int64_t>(shape_.n, 1)));
    result_.finite = finite_;
    if (!finite_) {
      result_.residual = std::numeric_limits<double>::infinity();
      result_.detail = fmt::format("{}: C holds NaN or Inf", label_);
    } else if (shape_.m > 0) {
      const double rms = std::sqrt(mean_square_ / static_cast<double>(shape_.m * numerics::kSignedLanes));
      const double limit = numerics::rms_limit(different_rows());
      if (rms > worst_ * limit) {
        result_.residual = rms;
        result_.allowed = limit;
        result_.detail = fmt::format(
            "{}: random projections of C are off by {:.3g} times what the ideal fp32 kernel "
            "would leave, {:.3g} times is allowed",
            label_, rms, limit);
      }
    }
    return std::move(result_);
  }

 private:
  // Equal rows have one residual, not many: their mean says as little as that of one.
  std::int64_t different_rows() {
    std::ranges::sort(rows_);
    return std::ranges::unique(rows_).begin() - rows_.begin();
  }

  const std::string& label_;
  const ProductModel& shape_;
  SpotCheck result_;
  std::vector<double> rows_;  // a projection of each, by which equal ones are known
  double worst_ = -1.0, mean_square_ = 0.0;
  bool finite_ = true;
};

}  // namespace

SpotCheck product_spot_check(const ProductModel& model, const TensorView& a, bool trans_a, const TensorView& b,
                             bool trans_b, const TensorView& c, const TensorView* old, const std::string& label,
                             std::uint64_t seed) {
  const Projection r = random_signs(seed, model.n), found = projected(c, false, r);
  Projection expected = projected(a, trans_a, projected(b, trans_b, r));
  if (old != nullptr) numerics::add_projection(*old, false, r, expected);
  Residuals residuals(label, model);
  for (std::size_t i = 0; i < found.size(); ++i) residuals.add(i, found, expected);
  return residuals.result();
}

}  // namespace ridge::ops
