// The definition, in fp64 from the stored inputs. Shares no code with any kernel.
#include "base/error.h"
#include "numerics/convert.h"
#include "ops/gemm/gemm.h"
#include "ops/product.h"

namespace ridge::ops::gemm {

namespace {

ProductModel model_of(const Shape& s) { return {s.m, s.n, s.k, s.out, s.accumulate}; }

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  const ProductModel model = model_of(s);
  ProductSums sums = product_sums(model, load_matrix(operands[0], s.trans_a), load_matrix(operands[1], s.trans_b),
                                  s.accumulate ? numerics::to_doubles(operands[2]) : std::vector<double>());
  return std::vector{product_reference(model, std::move(sums))};
}

Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed) {
  const Shape s = shape_of(problem);
  if (s.accumulate && operands.size() < 4) {
    return make_error(ErrorCode::kInternal, "spot check of {}: the old content of C is missing",
                      problem.problem_case.text());
  }
  return product_spot_check(model_of(s), operands[0], s.trans_a, operands[1], s.trans_b, operands[2],
                            s.accumulate ? &operands[3] : nullptr, problem.problem_case.text(), seed);
}

}  // namespace ridge::ops::gemm
