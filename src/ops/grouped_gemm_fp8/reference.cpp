// The definition, group by group, in fp64 from codes and scales as stored. Shares no code with any kernel.
#include "base/error.h"
#include "ops/grouped_gemm_fp8/grouped_gemm_fp8.h"

namespace ridge::ops::grouped_gemm_fp8 {
namespace {

ProductModel model_of(const CodedProduct& product) { return coded_model(product, kUnitTerms); }

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  RIDGE_TRY(offsets, offsets_of(problem, operands));
  return std::vector{grouped_reference(output_of(s, operands, offsets), [&](std::int64_t group) {
    const CodedProduct p = product_of(s, operands, offsets, group);
    return coded_reference(model_of(p), p);
  })};
}

Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed) {
  const Shape s = shape_of(problem);
  if (s.accumulate && operands.size() < kC + 2) {
    return make_error(ErrorCode::kInternal, "spot check of {}: the old content of C is missing",
                      problem.problem_case.text());
  }
  RIDGE_TRY(offsets, offsets_of(problem, operands));
  const std::string label = problem.problem_case.text();
  return grouped_spot_check(output_of(s, operands, offsets), label, seed, [&](std::int64_t group, std::uint64_t own) {
    const CodedProduct p = product_of(s, operands, offsets, group);
    const TensorView old = s.accumulate ? matrix_of(operands[kC + 1], group) : TensorView();
    return coded_spot_check(model_of(p), p, old, label, own);
  });
}

}  // namespace ridge::ops::grouped_gemm_fp8
