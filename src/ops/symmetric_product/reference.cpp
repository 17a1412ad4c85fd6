// The definition, in fp64 from the stored inputs. Shares no code with any kernel.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/philox.h"
#include "ops/matmul/product.h"
#include "ops/symmetric_product/symmetric_product.h"

namespace ridge::ops::symmetric_product {
namespace {

constexpr double kUnit = 0x1p-24;          // of fp32, in which all of it is computed
constexpr std::int64_t kSampledRows = 16;  // of each matrix, by the spot check

// Sums of rows `rows` of C -> alpha sums + beta R + shift, with what fp32 may lose on the way. `residual` [n, n] may be
// empty.
void finish(const Shape& s, const Factors& f, const std::vector<std::int64_t>& rows,
            const std::vector<double>& residual, ProductSums& sums) {
  for (std::size_t e = 0; e < sums.value.size(); ++e) {
    const std::int64_t i = rows[e / static_cast<std::size_t>(s.n)], j = static_cast<std::int64_t>(e) % s.n;
    const double alpha = f.alpha;
    double &x = sums.value[e], &allowed = sums.allowed[e], &square = sums.square[e];
    const auto rounded = [&](double result) {  // one more operation in fp32
      allowed += kUnit * std::abs(result);
      square += kUnit * kUnit * result * result / 6;
      return result;
    };
    allowed = std::abs(alpha) * (allowed + 2 * expected_truncation(s) * std::abs(x));
    square *= alpha * alpha;
    sums.shift[e] *= std::abs(alpha);
    x = rounded(alpha * x);
    if (!residual.empty()) {
      x = rounded(x + rounded(f.beta * residual[static_cast<std::size_t>(std::min(i, j) * s.n + std::max(i, j))]));
    }
    if (i == j) x = rounded(x + f.shift);
  }
}

// Rows of one matrix of C. `a` is op(A).
ReferenceOutput rows_of_one(const Shape& s, const Factors& f, const std::vector<std::int64_t>& rows,
                            const std::vector<double>& a, const std::vector<double>& residual) {
  std::vector<double> chosen;
  for (const std::int64_t row : rows) chosen.insert(chosen.end(), a.begin() + row * s.k, a.begin() + (row + 1) * s.k);
  const ProductModel model{static_cast<std::int64_t>(rows.size()), s.n, s.k, s.out, false};
  ProductSums sums = product_sums(model, chosen, transposed_copy(a, s.n, s.k), {});
  finish(s, f, rows, residual, sums);
  return product_reference(model, std::move(sums));
}

struct Loaded {
  std::vector<double> a, residual;
};
Loaded load(const Shape& s, std::span<const TensorView> operands, std::int64_t index) {
  Loaded loaded{load_matrix(matrix_of(operands[0], index), s.trans_a), {}};
  if (s.residual) loaded.residual = load_matrix(matrix_of(operands[s.residual_at()], index), false);
  return loaded;
}

void fail(SpotCheck& check, double residual, std::string detail) {
  check.residual = std::isnan(residual) ? HUGE_VAL : residual;
  check.detail = std::move(detail);
}

// C against its transpose, bit by bit, then rows that are drawn in secret against the definition.
void check_one(const Shape& s, const Factors& f, const Loaded& loaded, const std::vector<double>& c,
               const std::string& label, std::uint64_t seed, SpotCheck& check) {
  const auto at = [&](std::int64_t i, std::int64_t j) { return c[static_cast<std::size_t>(i * s.n + j)]; };
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  for (std::int64_t i = 0; i < s.n; ++i) {
    for (std::int64_t j = i; j < s.n; ++j) {
      check.finite = check.finite && std::isfinite(at(i, j));
      if (same(at(i, j), at(j, i))) continue;
      fail(check, HUGE_VAL,
           fmt::format("{}: not symmetric: ({}, {}) is {:.9g}, ({}, {}) is {:.9g}", label, i, j, at(i, j), j, i,
                       at(j, i)));
      return;
    }
  }
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < std::min(s.n, kSampledRows); ++i) {
    const auto draw = numerics::derive_seed(seed, static_cast<std::uint64_t>(i));
    rows.push_back(s.n <= kSampledRows ? i : static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(s.n)));
  }
  const ReferenceOutput expected = rows_of_one(s, f, rows, loaded.a, loaded.residual);
  for (std::size_t e = 0; e < expected.value.size(); ++e) {
    const double found = at(rows[e / static_cast<std::size_t>(s.n)], static_cast<std::int64_t>(e) % s.n);
    const double ratio = same(found, expected.value[e]) ? 0 : std::abs(found - expected.value[e]) / expected.allowed[e];
    if (ratio <= check.residual) continue;
    fail(check, ratio,
         fmt::format("{}: an element of a row drawn in secret is {:.9g}, not {:.9g} +- {:.3g}", label, found,
                     expected.value[e], expected.allowed[e]));
  }
}

}  // namespace

double expected_truncation(const Shape& s) {
  return s.dtype == DType::kF32 ? 0 : (static_cast<double>(s.k) / 16 + 2) * kUnit;
}

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem);
  const Factors f = factors_of(problem, arguments);
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < s.n; ++i) rows.push_back(i);
  ReferenceOutput c;
  for (std::int64_t index = 0; index < s.batch; ++index) {
    const Loaded loaded = load(s, arguments, index);
    append(rows_of_one(s, f, rows, loaded.a, loaded.residual), c);
  }
  return std::vector{std::move(c)};
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  const Shape s = shape_of(problem);
  const Factors f = factors_of(problem, arguments);
  SpotCheck check;
  check.allowed = check.blind_factor = 1;
  for (std::int64_t index = 0; index < s.batch; ++index) {
    const std::vector<double> c = numerics::to_doubles(matrix_of(arguments[s.c_at()], index));
    const std::uint64_t own = numerics::derive_seed(seed, static_cast<std::uint64_t>(index));
    check_one(s, f, load(s, arguments, index), c, problem.problem_case.text(), own, check);
  }
  return check;
}

}  // namespace ridge::ops::symmetric_product
