// The definition (ops/matmul/coded_reference.cpp) of the whole call.
#include "base/error.h"
#include "ops/gemm_fp8/gemm_fp8.h"

namespace ridge::ops::gemm_fp8 {

CodedProduct product_of(const Shape& s, std::span<const TensorView> operands) {
  CodedProduct p{s.m, s.n, s.k, operands[kA], operands[kB], s.trans_a, s.trans_b, operands[kScaleA], operands[kScaleB]};
  p.granularities = granularities(s.scaling);
  if (s.bias) p.bias = operands[s.bias_at()];
  p.c = operands[s.c_at()];
  p.accumulate = s.accumulate;
  return p;
}

ProductModel model_of(const Shape& s) {
  CodedProduct p{s.m, s.n, s.k};
  p.c.dtype = s.out;
  p.accumulate = s.accumulate;
  switch (s.sums) {
    case Fp8Sums::kFp32: break;
    case Fp8Sums::kPromoted: return coded_model(p, 128);
    case Fp8Sums::kFast: return coded_model(p, s.k);
  }
  return coded_model(p, 0);
}

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_scales(problem, operands));
  return std::vector{coded_reference(model_of(s), product_of(s, operands))};
}

Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed) {
  const Shape s = shape_of(problem);
  if (s.accumulate && operands.size() <= s.c_at() + 1) {
    return make_error(ErrorCode::kInternal, "spot check of {}: the old content of C is missing",
                      problem.problem_case.text());
  }
  const TensorView old = s.accumulate ? operands[s.c_at() + 1] : TensorView();
  return coded_spot_check(model_of(s), product_of(s, operands), old, problem.problem_case.text(), seed);
}

}  // namespace ridge::ops::gemm_fp8
