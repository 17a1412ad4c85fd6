#include "ops/device_check.h"

#include "ops/gemm_fp8/gemm_fp8.h"
#include "ops/matmul/product_check.h"

namespace ridge::ops::gemm_fp8 {
namespace {

// Half a unit of the 14 bits that the matrix unit keeps, for each of its steps of 32 products: always towards zero, so
// the errors of a step have the sign of the sum. For projections, which do not know single elements.
double truncation(const Shape& s) {
  constexpr double kHalfUnit = 0x1p-14;
  switch (s.sums) {
    case Fp8Sums::kFp32: return 0;
    case Fp8Sums::kPromoted: return 8 * kHalfUnit;
    case Fp8Sums::kFast: return (static_cast<double>(s.k) / 32 + 4) * kHalfUnit;
  }
  return 0;
}

CheckedProduct product_of(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  const Granularities g = granularities(s.scaling);
  CheckedProduct p;
  p.model = model_of(s);
  p.truncated = truncation(s);
  p.settles = s.out != DType::kF32;
  p.trans_a = s.trans_a;
  p.trans_b = s.trans_b;
  p.granularity_a = static_cast<std::int64_t>(g.a);
  p.granularity_b = static_cast<std::int64_t>(g.b);
  p.a = device_matrix(operands[kA]);
  p.b = device_matrix(operands[kB]);
  p.c = device_matrix(operands[s.c_at()]);
  p.scale_a = device_matrix(operands[kScaleA]);
  p.scale_b = device_matrix(operands[kScaleB]);
  if (s.bias) p.bias = device_matrix(operands[s.bias_at()]);
  if (s.accumulate) p.old = device_matrix(operands[s.c_at() + 1]);
  return p;
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/matmul/product_check.cu"});
  check->scratch_bytes = [](const Problem& problem) {
    const Shape s = shape_of(problem);
    return product_scratch_bytes(s.m, s.n, s.k);
  };
  check->projection = [](const DeviceCheck::ProjectionRequest& request) {
    return product_projection(product_of(request.problem, request.operands), request.seed, request.scratch,
                              request.result);
  };
  check->reference = [](const DeviceCheck::ReferenceRequest& request) {
    return product_rows_of_reference(
        product_of(request.problem, request.operands),
        {request.first, request.count, request.value, request.allowed, request.variance, request.shift});
  };
  return check;
}

}  // namespace ridge::ops::gemm_fp8
