// The definition, group by group, in fp64 from the stored inputs. Shares no code with any kernel.
#include "base/error.h"
#include "numerics/convert.h"
#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/product.h"

namespace ridge::ops::grouped_gemm {
namespace {

ProductModel model_of(const Shape& s, const GroupProduct& product) {
  return {product.m, product.n, product.k, s.out, s.accumulate};
}

ReferenceOutput one_group(const Shape& s, const GroupProduct& p) {
  std::vector<double> old;
  if (s.accumulate) old = numerics::to_doubles(p.c);
  const ProductModel model = model_of(s, p);
  return product_reference(
      model, product_sums(model, load_matrix(p.a, p.trans_a), load_matrix(p.b, p.trans_b), std::move(old)));
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  const std::vector<std::int64_t> offsets = offsets_of(operands);
  RIDGE_CHECK_OK(check_offsets(problem, offsets));
  return std::vector{grouped_reference(output_of(s, operands, offsets), [&](std::int64_t g) {
    return one_group(s, product_of(s, operands, offsets, g));
  })};
}

Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed) {
  const Shape s = shape_of(problem);
  if (s.accumulate && operands.size() < kC + 2) {
    return make_error(ErrorCode::kInternal, "spot check of {}: the old content of C is missing",
                      problem.problem_case.text());
  }
  const std::vector<std::int64_t> offsets = offsets_of(operands);
  RIDGE_CHECK_OK(check_offsets(problem, offsets));
  const std::string label = problem.problem_case.text();
  return grouped_spot_check(output_of(s, operands, offsets), label, seed, [&](std::int64_t g, std::uint64_t own) {
    const GroupProduct p = product_of(s, operands, offsets, g);
    const TensorView old = s.accumulate ? matrix_of(operands[kC + 1], g) : TensorView();
    return product_spot_check(model_of(s, p), p.a, p.trans_a, p.b, p.trans_b, p.c, s.accumulate ? &old : nullptr, label,
                              own);
  });
}

}  // namespace ridge::ops::grouped_gemm
