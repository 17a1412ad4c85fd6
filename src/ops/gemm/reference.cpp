// The definition, in fp64 from the stored inputs, and two ways to hold an output against it: every element
// (reference) and a secret random projection (spot_check, Freivalds' check). Shares no code with any kernel.
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "numerics/convert.h"
#include "ops/gemm/gemm.h"

namespace ridge::ops::gemm {

double accumulation_error(std::int64_t k) { return (2.0 + 4.0 * std::sqrt(static_cast<double>(k) + 1.0)) * 0x1p-24; }

double output_error(DType out) {
  switch (out) {
    case DType::kBf16: return 0x1p-8;
    case DType::kF16: return 0x1p-11;
    default: return 0x1p-24;
  }
}

double output_floor(DType out) { return out == DType::kF16 ? 0x1p-25 : 0x1p-149; }

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
    c.allowed[e] =
        accumulation_error(s.k) * magnitude[e] + output_error(s.out) * std::abs(c.value[e]) + output_floor(s.out);
  }
  return std::vector{std::move(c)};
}

namespace {

// Random sign vectors: C r is compared with A (B r), which a wrong element of C survives with a chance the seed hides.
constexpr int kProjections = 2;  // independent ones, so that a pair of errors that cancels in one shows in the other
constexpr int kNormSamples = 4;  // for the size of the allowed error

std::vector<double> signs(std::mt19937_64& generator, std::size_t count) {
  std::vector<double> r(count);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 64 == 0) bits = generator();
    r[i] = ((bits >> (i % 64)) & 1u) != 0 ? 1.0 : -1.0;
  }
  return r;
}

std::vector<double> multiply(const Matrix& x, const std::vector<double>& v, bool absolute) {
  std::vector<double> y(x.rows, 0.0);
  for (std::size_t i = 0; i < x.rows; ++i) {
    double sum = 0.0;
    for (std::size_t j = 0; j < x.cols; ++j) sum += (absolute ? std::abs(x.at(i, j)) : x.at(i, j)) * v[j];
    y[i] = sum;
  }
  return y;
}

double row_norm(const Matrix& x, std::size_t row) {
  double sum = 0.0;
  for (std::size_t j = 0; j < x.cols; ++j) sum += x.at(row, j) * x.at(row, j);
  return std::sqrt(sum);
}

bool is_finite(const Matrix& x) {
  for (const double value : x.values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

// sqrt(sum_j (|A| |B|)_ij^2) of each row: the expectation of ((|A| (|B| r))_i)^2 over sign vectors r.
std::vector<double> magnitude_norms(const Matrix& a, const Matrix& b, const Matrix* old, std::mt19937_64& generator) {
  std::vector<double> squares(a.rows, 0.0);
  for (int sample = 0; sample < kNormSamples; ++sample) {
    const std::vector<double> r = signs(generator, b.cols);
    std::vector<double> rows = multiply(a, multiply(b, r, true), true);
    if (old != nullptr) {
      const std::vector<double> extra = multiply(*old, r, true);
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += extra[i];
    }
    for (std::size_t i = 0; i < rows.size(); ++i) squares[i] += rows[i] * rows[i] / kNormSamples;
  }
  // All-positive data projects to almost nothing by chance in a row or two: the mean magnitude is a floor.
  const std::vector<double> ones(b.cols, 1.0);
  const std::vector<double> totals = multiply(a, multiply(b, ones, true), true);
  std::vector<double> norms(a.rows);
  for (std::size_t i = 0; i < a.rows; ++i) {
    norms[i] =
        std::max(std::sqrt(squares[i]), totals[i] / std::sqrt(static_cast<double>(std::max<std::size_t>(b.cols, 1))));
  }
  return norms;
}

}  // namespace

Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed) {
  const Shape s = shape_of(problem);
  if (s.accumulate && operands.size() < 4) {
    return make_error(ErrorCode::kInternal, "spot check of {}: the old content of C is missing",
                      problem.problem_case.text());
  }
  const Matrix a = load(operands[0], s.trans_a), b = load(operands[1], s.trans_b), c = load(operands[2], false);
  const Matrix old = s.accumulate ? load(operands[3], false) : Matrix{};
  SpotCheck result;
  result.blind_factor = std::sqrt(static_cast<double>(std::max<std::int64_t>(s.n, 1)));
  if (!is_finite(c)) {
    result.finite = false;
    result.residual = std::numeric_limits<double>::infinity();
    result.detail = fmt::format("{}: C holds NaN or Inf", problem.problem_case.text());
    return result;
  }
  std::mt19937_64 generator(seed);
  const std::vector<double> norms = magnitude_norms(a, b, s.accumulate ? &old : nullptr, generator);
  double worst = 0.0;
  for (int projection = 0; projection < kProjections; ++projection) {
    const std::vector<double> r = signs(generator, c.cols);
    const std::vector<double> found = multiply(c, r, false);
    std::vector<double> expected = multiply(a, multiply(b, r, false), false);
    if (s.accumulate) {
      const std::vector<double> extra = multiply(old, r, false);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += extra[i];
    }
    for (std::size_t i = 0; i < c.rows; ++i) {
      // Rounding errors of one row have independent signs under r, so they add as squares do.
      const double allowed = accumulation_error(s.k) * norms[i] + 3.0 * output_error(s.out) * row_norm(c, i) +
                             output_floor(s.out) * static_cast<double>(c.cols);
      const double residual = std::abs(found[i] - expected[i]);
      const double ratio = residual / allowed;
      if (ratio >= worst) {
        worst = ratio;
        result.residual = residual;
        result.allowed = allowed;
        if (ratio > 1.0) {
          result.detail = fmt::format("{}: row {} of C is off by {:.3g} in a random projection, {:.3g} is allowed",
                                      problem.problem_case.text(), i, residual, allowed);
        }
      }
    }
  }
  return result;
}

}  // namespace ridge::ops::gemm
