// The definition, in fp64 from the stored inputs. Shares no code with any kernel.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "numerics/format.h"
#include "numerics/philox.h"
#include "ops/gemm/gemm.h"
#include "ops/matmul/product.h"

namespace ridge::ops::gemm {

namespace {

constexpr double kUnit = 0x1p-24;          // of fp32, in which an epilogue is computed
constexpr double kSteepest = 1.13;         // slope of any activation
constexpr std::int64_t kSampledRows = 16;  // of each matrix, by the spot check of an epilogue

ProductModel model_of(const Shape& s) { return {s.m, s.n, s.k, s.out, s.accumulate}; }

double activate(double x, Activation activation) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kGelu: return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu: return x / (1 + std::exp(-x));
  }
  return x;
}

// sums -> f(sums + bias) + residual, with what fp32 may lose on the way. `bias` [n] and `residual` [m, n] may be empty.
void finish(const Shape& s, const std::vector<double>& bias, const std::vector<double>& residual, ProductSums& sums) {
  for (std::size_t e = 0; e < sums.value.size(); ++e) {
    double &x = sums.value[e], &allowed = sums.allowed[e], &square = sums.square[e], &shift = sums.shift[e];
    const auto rounded_to = [&](double result) {  // one more addition
      allowed += kUnit * std::abs(result);
      square += kUnit * kUnit * result * result / 6;
      return result;
    };
    if (!bias.empty()) x = rounded_to(x + bias[e % static_cast<std::size_t>(s.n)]);
    if (s.activation != Activation::kNone) {
      const double step = 1e-4 * std::max(1.0, std::abs(x)), before = x;
      const double slope = (activate(x + step, s.activation) - activate(x - step, s.activation)) / (2 * step);
      x = activate(x, s.activation);
      allowed = kSteepest * allowed + 8 * kUnit * std::abs(before);
      if (std::isfinite(slope)) square *= slope * slope;
      square += 4 * kUnit * kUnit * before * before / 3;
      shift = kSteepest * shift + 8 * kUnit * std::abs(before);  // an approximation may err to one side everywhere
    }
    if (!residual.empty()) x = rounded_to(x + residual[e]);
  }
}

struct Operands {
  std::vector<double> a, b, bias, residual, old;
};
Operands load(const Shape& s, std::span<const TensorView> operands, std::int64_t index) {
  const auto matrix = [&](std::size_t at, bool transposed) {
    return load_matrix(matrix_of(operands[at], index), transposed);
  };
  Operands loaded{matrix(0, s.trans_a), matrix(1, s.trans_b), {}, {}, {}};
  if (s.bias) loaded.bias = numerics::to_doubles(operands[s.bias_at()]);
  if (s.residual) loaded.residual = matrix(s.residual_at(), false);
  if (s.accumulate) loaded.old = matrix(s.c_at(), false);
  return loaded;
}

ReferenceOutput one_matrix(const Shape& s, const Operands& o) {
  ProductSums sums = product_sums(model_of(s), o.a, o.b, o.old);
  if (s.epilogue()) finish(s, o.bias, o.residual, sums);
  return product_reference(model_of(s), std::move(sums));
}

// An activation is not linear, so no projection sees all of C at once: rows drawn in secret are computed instead.
SpotCheck check_rows(const Shape& whole, Operands o, const TensorView& c, const std::string& label,
                     std::uint64_t seed) {
  Shape s = whole;
  s.m = std::min(whole.m, kSampledRows);
  std::vector<double> a, residual, found;
  const std::vector<double> all = numerics::to_doubles(c);
  const auto take = [](const std::vector<double>& from, std::int64_t row, std::int64_t width, std::vector<double>& to) {
    if (!from.empty()) to.insert(to.end(), from.begin() + row * width, from.begin() + (row + 1) * width);
  };
  for (std::int64_t i = 0; i < s.m; ++i) {
    const auto draw = numerics::derive_seed(seed, static_cast<std::uint64_t>(i));
    const std::int64_t row = s.m == whole.m ? i : static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(whole.m));
    take(o.a, row, s.k, a);
    take(o.residual, row, s.n, residual);
    take(all, row, s.n, found);
  }
  o.a = std::move(a);
  o.residual = std::move(residual);
  const ReferenceOutput expected = one_matrix(s, o);
  SpotCheck result;
  result.allowed = result.blind_factor = 1;
  for (std::size_t e = 0; e < found.size(); ++e) {
    const bool same = found[e] == expected.value[e] || (std::isnan(found[e]) && std::isnan(expected.value[e]));
    const double ratio = same ? 0 : std::abs(found[e] - expected.value[e]) / expected.allowed[e];
    result.finite = result.finite && std::isfinite(found[e]);
    if (ratio <= result.residual) continue;
    result.residual = std::isnan(ratio) ? HUGE_VAL : ratio;
    result.detail = fmt::format("{}: an element of a row drawn in secret is {:.9g}, not {:.9g} +- {:.3g}", label,
                                found[e], expected.value[e], expected.allowed[e]);
  }
  return result;
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  ReferenceOutput c;
  for (std::int64_t i = 0; i < s.batch; ++i) append(one_matrix(s, load(s, operands, i)), c);
  return std::vector{std::move(c)};
}

Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed) {
  const Shape s = shape_of(problem);
  const std::size_t c = s.c_at();
  if (s.accumulate && operands.size() < c + 2) {
    return make_error(ErrorCode::kInternal, "spot check of {}: the old content of C is missing",
                      problem.problem_case.text());
  }
  SpotCheck worst;
  const std::string label = problem.problem_case.text();
  for (std::int64_t i = 0; i < s.batch; ++i) {
    const TensorView found = matrix_of(operands[c], i);
    const std::uint64_t own = i == 0 ? seed : numerics::derive_seed(seed, static_cast<std::uint64_t>(i));
    SpotCheck one;
    if (s.epilogue()) {
      one = check_rows(s, load(s, operands, i), found, label, own);
    } else {
      const TensorView old = s.accumulate ? matrix_of(operands[c + 1], i) : TensorView();
      one = product_spot_check(model_of(s), matrix_of(operands[0], i), s.trans_a, matrix_of(operands[1], i), s.trans_b,
                               found, s.accumulate ? &old : nullptr, label, own);
    }
    const bool finite = worst.finite && one.finite;
    if (i == 0 || !(one.residual * worst.allowed <= worst.residual * one.allowed)) worst = std::move(one);
    worst.finite = finite;
  }
  return worst;
}

}  // namespace ridge::ops::gemm
