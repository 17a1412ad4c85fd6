#include "ops/device_check.h"

#include "ops/grouped_gemm_fp8/grouped_gemm_fp8.h"
#include "ops/matmul/grouped_check.h"

namespace ridge::ops::grouped_gemm_fp8 {
namespace {

CheckedGroups describe_groups(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  const Granularities granularities = s.granularities();
  CheckedGroups call;
  call.groups = s.groups, call.rows = s.rows;
  call.m = s.m, call.k = s.k;
  call.along_sums = s.along_sums ? 1 : 0;
  call.granularity_a = static_cast<std::int64_t>(granularities.a);
  call.granularity_b = static_cast<std::int64_t>(granularities.b);
  call.unit_terms = kUnitTerms;
  call.gather = s.gather ? 1 : 0, call.sources = s.sources;
  call.settles = s.out != DType::kF32 ? 1 : 0;
  call.c.rows = s.along_sums ? s.groups * s.m : s.rows;
  call.c.columns = s.n;
  if (operands.empty()) return call;
  call.a = device_matrix(operands[kA]);
  call.b = device_matrix(operands[kB]);
  call.scale_a = device_matrix(operands[kScaleA]);
  call.scale_b = device_matrix(operands[kScaleB]);
  call.offsets = device_matrix(operands[kOffsetsOperand]);
  if (s.gather) call.index = device_matrix(operands[s.index()]);
  call.c = device_matrix(operands[s.c_at()]);
  if (s.accumulate) call.old = device_matrix(operands[s.c_at() + 1]);
  return call;
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() { return grouped_device_check(describe_groups); }

}  // namespace ridge::ops::grouped_gemm_fp8
