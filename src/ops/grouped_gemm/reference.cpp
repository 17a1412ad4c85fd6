// The definition, group by group, in fp64 from the stored inputs. Shares no code with any kernel.
#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "numerics/format.h"
#include "numerics/philox.h"
#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/product.h"

namespace ridge::ops::grouped_gemm {
namespace {

ProductModel model_of(const Shape& s, const GroupProduct& product) {
  return {product.m, product.n, product.k, s.out, s.accumulate};
}

// Elements without a sum: they are what they are, to the last bit.
void append_exact(const std::vector<double>& values, DType out, ReferenceOutput& all) {
  for (const double value : values) {
    const double spacing = numerics::ulp(out, value);
    all.value.push_back(value);
    all.allowed.push_back(spacing / 2);
    all.ideal_square.push_back(spacing * spacing / 12);
    all.shift.push_back(0);
  }
}
// Rows of no group.
void append_zeros(std::int64_t count, DType out, ReferenceOutput& all) {
  append_exact(std::vector<double>(static_cast<std::size_t>(count), 0.0), out, all);
}

ReferenceOutput one_group(const Shape& s, const GroupProduct& p) {
  // Nothing is added: C stays as it is.
  if (s.accumulate && p.k == 0) {
    ReferenceOutput kept;
    append_exact(numerics::to_doubles(p.c), s.out, kept);
    return kept;
  }
  std::vector<double> old;
  if (s.accumulate) old = numerics::to_doubles(p.c);
  const ProductModel model = model_of(s, p);
  return product_reference(
      model, product_sums(model, load_matrix(p.a, p.trans_a), load_matrix(p.b, p.trans_b), std::move(old)));
}

// An element of the rows of no group that is not 0, as a failed check.
void check_zero(const Problem& problem, const TensorView& rows, std::int64_t first, SpotCheck& worst) {
  for (std::int64_t i = 0; i < rows.shape[0]; ++i) {
    const std::vector<double> row = numerics::to_doubles(rows_of(rows, i, i + 1));
    for (const double value : row) {
      if (value == 0) continue;
      worst.residual = 1;
      worst.allowed = 0;
      worst.detail =
          fmt::format("{}: row {} belongs to no group and holds {}", problem.problem_case.text(), first + i, value);
      return;
    }
  }
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  const std::vector<std::int64_t> offsets = offsets_of(operands);
  RIDGE_CHECK_OK(check_offsets(problem, offsets));
  ReferenceOutput c;
  if (!s.along_sums) append_zeros(offsets.front() * s.n, s.out, c);
  for (std::int64_t g = 0; g < s.groups; ++g) append(one_group(s, product_of(s, operands, offsets, g)), c);
  if (!s.along_sums) append_zeros((s.rows - offsets.back()) * s.n, s.out, c);
  return std::vector{std::move(c)};
}

Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed) {
  const Shape s = shape_of(problem);
  if (s.accumulate && operands.size() < kC + 2) {
    return make_error(ErrorCode::kInternal, "spot check of {}: the old content of C is missing",
                      problem.problem_case.text());
  }
  const std::vector<std::int64_t> offsets = offsets_of(operands);
  RIDGE_CHECK_OK(check_offsets(problem, offsets));
  SpotCheck worst;
  bool first = true;
  for (std::int64_t g = 0; g < s.groups; ++g) {
    const GroupProduct p = product_of(s, operands, offsets, g);
    if (p.m == 0 || p.n == 0) continue;
    const TensorView old = s.accumulate ? matrix_of(operands[kC + 1], g) : TensorView();
    SpotCheck one =
        product_spot_check(model_of(s, p), p.a, p.trans_a, p.b, p.trans_b, p.c, s.accumulate ? &old : nullptr,
                           problem.problem_case.text(), numerics::derive_seed(seed, static_cast<std::uint64_t>(g)));
    const bool finite = worst.finite && one.finite;
    if (first || !(one.residual * worst.allowed <= worst.residual * one.allowed)) worst = std::move(one);
    worst.finite = finite;
    first = false;
  }
  if (s.along_sums) return worst;
  check_zero(problem, rows_of(operands[kC], 0, offsets.front()), 0, worst);
  check_zero(problem, rows_of(operands[kC], offsets.back(), s.rows), offsets.back(), worst);
  return worst;
}

}  // namespace ridge::ops::grouped_gemm
