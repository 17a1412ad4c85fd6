// The definition, in fp64 from codes and scales as stored. Shares no code with any kernel.
#include <cmath>

#include "numerics/convert.h"
#include "numerics/format.h"
#include "ops/matmul/coded_product.h"

namespace ridge::ops {
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

ProductModel coded_model(const CodedProduct& p, std::int64_t matrix_unit_terms) {
  ProductModel model{p.m, p.n, p.k, p.c.dtype, p.accumulate};
  model.more_allowed = 4 * 0x1p-24;  // two scales, their product, one multiplication
  // An operand times its scale is rounded, by u / sqrt(6) in the mean. Codes have eight mantissas, so of equal terms in
  // a block, which share their scale, all are off by the same: this one adds up like the magnitudes, not like a root.
  model.more_ideal_shared = 0x1p-24 / std::sqrt(6.0);
  model.matrix_unit_terms = matrix_unit_terms;
  return model;
}

ReferenceOutput coded_reference(ProductModel model, const CodedProduct& p) {
  const std::vector<double> a = dequantized(p.a, p.trans_a, p.scale_a, p.granularities.a);
  const std::vector<double> b_rows = dequantized(p.b, !p.trans_b, p.scale_b, p.granularities.b);  // op(B)^T
  const std::vector<double> b = transposed_copy(b_rows, p.n, p.k);
  if (model.matrix_unit_terms != 0) {
    model.weight_a = alignment_weights(p.a, p.trans_a, a);
    model.weight_b = transposed_copy(alignment_weights(p.b, !p.trans_b, b_rows), p.n, p.k);
  }
  ProductSums sums = product_sums(model, a, b, p.accumulate ? numerics::to_doubles(p.c) : std::vector<double>());
  if (p.bias.rank != 0) add_bias(numerics::to_doubles(p.bias), sums);
  ReferenceOutput c = product_reference(model, sums);
  if (model.out != DType::kF32) settle_roundings(model.out, sums, c);
  return c;
}

SpotCheck coded_spot_check(ProductModel model, const CodedProduct& p, const TensorView& old, const std::string& label,
                           std::uint64_t seed) {
  std::vector<double> a = dequantized(p.a, p.trans_a, p.scale_a, p.granularities.a);
  std::vector<double> b = dequantized(p.b, !p.trans_b, p.scale_b, p.granularities.b);
  const TensorView factor_a = TensorView::contiguous(a.data(), DType::kF64, {p.m, p.k});
  const TensorView factor_b = TensorView::contiguous(b.data(), DType::kF64, {p.n, p.k});
  TensorView added = old;
  if (p.bias.rank != 0) {  // is to the projection what an old C with equal rows is
    added = p.bias;
    added.rank = 2, added.shape = {p.m, p.n}, added.stride = {0, 1};
  }
  model.accumulate = added.rank != 0;
  return product_spot_check(model, factor_a, false, factor_b, true, p.c, model.accumulate ? &added : nullptr, label,
                            seed);
}

}  // namespace ridge::ops
