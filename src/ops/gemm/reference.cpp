// The definition, in fp64 from the stored inputs, and two ways to hold an output against it: every element
// (reference) and a secret random projection (spot_check, Freivalds' check). Shares no code with any kernel.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "ops/gemm/gemm.h"

namespace ridge::ops::gemm {

namespace {

// op(X) as [rows, cols] in fp64.
struct Matrix {
  std::size_t rows = 0, cols = 0;
  std::vector<double> values;
  [[nodiscard]] double at(std::size_t i, std::size_t j) const { return values[i * cols + j]; }
};

Matrix load(const TensorView& view, bool transposed) {
  const Matrix stored{static_cast<std::size_t>(view.shape[0]), static_cast<std::size_t>(view.shape[1]),
                      numerics::to_doubles(view)};
  if (!transposed) return stored;
  Matrix flipped{stored.cols, stored.rows, std::vector<double>(stored.values.size())};
  for (std::size_t i = 0; i < flipped.rows; ++i) {
    for (std::size_t j = 0; j < flipped.cols; ++j) flipped.values[i * flipped.cols + j] = stored.at(j, i);
  }
  return flipped;
}

// What is summed for one element, in the terms of the error model.
numerics::Reduction reduction_of(const Shape& s) { return {DType::kF32, s.out, s.k + (s.accumulate ? 1 : 0)}; }

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  const Matrix a = load(operands[0], s.trans_a), b = load(operands[1], s.trans_b);
  ReferenceOutput c;
  c.value =
      s.accumulate ? numerics::to_doubles(operands[2]) : std::vector<double>(static_cast<std::size_t>(s.m * s.n), 0.0);
  std::vector<double> magnitude(c.value.size());
  for (std::size_t e = 0; e < c.value.size(); ++e) magnitude[e] = std::abs(c.value[e]);
  const auto m = static_cast<std::size_t>(s.m), n = static_cast<std::size_t>(s.n), k = static_cast<std::size_t>(s.k);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t p = 0; p < k; ++p) {
      const double left = a.at(i, p);
      for (std::size_t j = 0; j < n; ++j) {
        const double product = left * b.at(p, j);
        c.value[i * n + j] += product;
        magnitude[i * n + j] += std::abs(product);
      }
    }
  }
  c.allowed.resize(c.value.size());
  for (std::size_t e = 0; e < c.value.size(); ++e) {
    c.allowed[e] = numerics::element_bound(reduction_of(s), c.value[e], magnitude[e]);
  }
  return std::vector{std::move(c)};
}

namespace {

// Random sign vectors r: C r is compared with A (B r), and |A| (|B| r) tells how large the difference may be. All are
// carried side by side, so that each matrix is read once.
constexpr std::size_t kSigned = 4;    // comparisons: errors that cancel in one show in another
constexpr std::size_t kAbsolute = 4;  // for the allowed error; the last vector is all ones
constexpr std::size_t kLanes = kSigned + kAbsolute;
using Lanes = std::array<double, kLanes>;

std::vector<Lanes> random_signs(std::mt19937_64& generator, std::size_t count) {
  std::vector<Lanes> r(count);
  for (Lanes& lanes : r) {
    const std::uint64_t bits = generator();
    for (std::size_t l = 0; l < kLanes; ++l) lanes[l] = ((bits >> l) & 1u) != 0 ? 1.0 : -1.0;
    lanes.back() = 1.0;
  }
  return r;
}

void add_row(const double* row, const std::vector<Lanes>& v, Lanes& sum) {
  for (std::size_t j = 0; j < v.size(); ++j) {
    const double x = row[j], size = std::abs(x);
    for (std::size_t l = 0; l < kSigned; ++l) sum[l] += x * v[j][l];
    for (std::size_t l = kSigned; l < kLanes; ++l) sum[l] += size * v[j][l];
  }
}

// X v in the signed lanes and |X| v in the others.
std::vector<Lanes> project(const Matrix& x, const std::vector<Lanes>& v) {
  std::vector<Lanes> y(x.rows, Lanes{});
  for (std::size_t i = 0; i < x.rows; ++i) add_row(x.values.data() + i * x.cols, v, y[i]);
  return y;
}

double row_norm(const Matrix& x, std::size_t row) {
  double sum = 0.0;
  for (std::size_t j = 0; j < x.cols; ++j) sum += x.at(row, j) * x.at(row, j);
  return std::sqrt(sum);
}

bool is_finite(const Matrix& x) {
  return std::all_of(x.values.begin(), x.values.end(), [](double value) { return std::isfinite(value); });
}

// sqrt(sum_j (|A| |B|)_ij^2) of one row: the mean of ((|A| (|B| r))_i)^2 over sign vectors r. Data of one sign projects
// to almost nothing by chance in a row or two, so the mean magnitude is a floor.
double magnitude_norm(const Lanes& row, std::size_t cols) {
  double squares = 0.0;
  for (std::size_t l = kSigned; l + 1 < kLanes; ++l) squares += row[l] * row[l] / (kAbsolute - 1);
  return std::max(std::sqrt(squares), row.back() / std::sqrt(static_cast<double>(cols)));
}

// Rounding errors of one row have independent signs under r, so they add as squares do.
double allowed_residual(const Shape& s, const Matrix& c, std::size_t row, const Lanes& expected) {
  const double rounding = numerics::unit_roundoff(s.out) * row_norm(c, row);
  const double smallest = s.out == DType::kF16 ? 0x1p-25 : 0x1p-149;
  return numerics::accumulation_bound(reduction_of(s), magnitude_norm(expected, c.cols)) + 3.0 * rounding +
         smallest * static_cast<double>(c.cols);
}

}  // namespace

Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed) {
  const Shape s = shape_of(problem);
  if (s.accumulate && operands.size() < 4) {
    return make_error(ErrorCode::kInternal, "spot check of {}: the old content of C is missing",
                      problem.problem_case.text());
  }
  SpotCheck result;
  result.blind_factor = std::sqrt(static_cast<double>(std::max<std::int64_t>(s.n, 1)));
  const Matrix c = load(operands[2], false);
  if (!is_finite(c)) {
    result.finite = false;
    result.residual = std::numeric_limits<double>::infinity();
    result.detail = fmt::format("{}: C holds NaN or Inf", problem.problem_case.text());
    return result;
  }
  std::mt19937_64 generator(seed);
  const std::vector<Lanes> r = random_signs(generator, c.cols), found = project(c, r);
  std::vector<Lanes> expected = project(load(operands[0], s.trans_a), project(load(operands[1], s.trans_b), r));
  if (s.accumulate) {
    const Matrix old = load(operands[3], false);
    for (std::size_t i = 0; i < old.rows; ++i) add_row(old.values.data() + i * old.cols, r, expected[i]);
  }
  double worst = -1.0;
  for (std::size_t i = 0; i < c.rows; ++i) {
    const double allowed = allowed_residual(s, c, i, expected[i]);
    for (std::size_t l = 0; l < kSigned; ++l) {
      const double residual = std::abs(found[i][l] - expected[i][l]);
      if (residual <= worst * allowed) continue;
      worst = residual / allowed;
      result.residual = residual;
      result.allowed = allowed;
      result.detail = fmt::format("{}: row {} of C is off by {:.3g} in a random projection, {:.3g} is allowed",
                                  problem.problem_case.text(), i, residual, allowed);
    }
  }
  if (worst <= 1.0) result.detail.clear();
  return result;
}

}  // namespace ridge::ops::gemm
