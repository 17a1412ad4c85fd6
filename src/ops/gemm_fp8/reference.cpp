// The definition, in fp64 from codes and scales as stored.
#include <cmath>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/format.h"
#include "ops/gemm_fp8/gemm_fp8.h"
#include "ops/matmul/product.h"

namespace ridge::ops::gemm_fp8 {
namespace {

// Sums of 8-bit products take few values, so roundings to 16 bits repeat and lean to a side without anything being
// wrong. Where the sum, wherever it lies within its bound, rounds to one number, that number is the only right one.
void settle_roundings(DType out, const ProductSums& sums, ReferenceOutput& c) {
  for (std::size_t e = 0; e < sums.value.size(); ++e) {
    const double low = numerics::round_to(out, sums.value[e] - sums.allowed[e]);
    if (!std::isfinite(low) || low != numerics::round_to(out, sums.value[e] + sums.allowed[e])) continue;
    c.value[e] = low;
    c.allowed[e] = numerics::ulp(out, low) * 0x1p-10;
    c.ideal_square[e] = c.allowed[e] * c.allowed[e] / 4;
    c.shift[e] = 0;
  }
}

// By what the matrix unit aligns `values`, the elements of a stored matrix with their scales
// (ops/matmul/matrix_unit.h).
std::vector<double> alignment_weights(const TensorView& codes, bool transposed, std::vector<double> values) {
  const std::vector<double> stored = load_matrix(codes, transposed);
  const double least = numerics::min_normal(codes.dtype);
  for (std::size_t e = 0; e < values.size(); ++e) {
    const double code = std::abs(stored[e]);
    if (code > 0 && code < least) values[e] *= least / code;
  }
  return values;
}

// To every row, in fp32.
void add_bias(const std::vector<double>& bias, ProductSums& sums) {
  constexpr double kUnit = 0x1p-24;
  for (std::size_t e = 0; e < sums.value.size(); ++e) {
    const double sum = sums.value[e] += bias[e % bias.size()];
    sums.allowed[e] += kUnit * std::abs(sum);
    sums.square[e] += kUnit * kUnit * sum * sum / 6;
  }
}

}  // namespace

ProductModel model_of(const Shape& s) {
  ProductModel model{s.m, s.n, s.k, s.out, s.accumulate};
  model.more_allowed = 4 * 0x1p-24;  // two scales, their product, one multiplication
  // An operand times its scale is rounded, by u / sqrt(6) in the mean. Codes have eight mantissas, so of equal terms in
  // a block, which share their scale, all are off by the same: this one adds up like the magnitudes, not like a root.
  model.more_ideal_shared = 0x1p-24 / std::sqrt(6.0);
  switch (s.sums) {
    case Fp8Sums::kFp32: break;
    case Fp8Sums::kPromoted: model.matrix_unit_terms = 128; break;
    case Fp8Sums::kFast: model.matrix_unit_terms = s.k; break;
  }
  return model;
}

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_scales(problem, operands));
  const Granularities g = granularities(s.scaling);
  const std::vector<double> a = dequantized(operands[kA], s.trans_a, operands[kScaleA], g.a);
  const std::vector<double> b_rows = dequantized(operands[kB], !s.trans_b, operands[kScaleB], g.b);  // op(B)^T
  const std::vector<double> b = transposed_copy(b_rows, s.n, s.k);
  ProductModel model = model_of(s);
  if (model.matrix_unit_terms != 0) {
    model.weight_a = alignment_weights(operands[kA], s.trans_a, a);
    model.weight_b = transposed_copy(alignment_weights(operands[kB], !s.trans_b, b_rows), s.n, s.k);
  }
  ProductSums sums =
      product_sums(model, a, b, s.accumulate ? numerics::to_doubles(operands[s.c_at()]) : std::vector<double>());
  if (s.bias) add_bias(numerics::to_doubles(operands[s.bias_at()]), sums);
  ReferenceOutput c = product_reference(model, sums);
  if (s.out != DType::kF32) settle_roundings(s.out, sums, c);
  return std::vector{std::move(c)};
}

Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed) {
  const Shape s = shape_of(problem);
  const std::size_t c = s.c_at();
  if (s.accumulate && operands.size() <= c + 1) {
    return make_error(ErrorCode::kInternal, "spot check of {}: the old content of C is missing",
                      problem.problem_case.text());
  }
  const Granularities g = granularities(s.scaling);
  std::vector<double> a = dequantized(operands[kA], s.trans_a, operands[kScaleA], g.a);
  std::vector<double> b = dequantized(operands[kB], !s.trans_b, operands[kScaleB], g.b);
  const TensorView factor_a = TensorView::contiguous(a.data(), DType::kF64, {s.m, s.k});
  const TensorView factor_b = TensorView::contiguous(b.data(), DType::kF64, {s.n, s.k});
  TensorView old = s.accumulate ? operands[c + 1] : TensorView();
  if (s.bias) {  // is to the projection what an old C with equal rows is
    old = operands[s.bias_at()];
    old.rank = 2, old.shape = {s.m, s.n}, old.stride = {0, 1};
  }
  ProductModel model = model_of(s);
  model.accumulate = s.accumulate || s.bias;
  return product_spot_check(model, factor_a, false, factor_b, true, operands[c], old.rank != 0 ? &old : nullptr,
                            problem.problem_case.text(), seed);
}

}  // namespace ridge::ops::gemm_fp8
