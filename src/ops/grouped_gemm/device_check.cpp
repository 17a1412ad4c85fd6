#include "ops/device_check.h"

#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/grouped_check.h"

namespace ridge::ops::grouped_gemm {
namespace {

CheckedGroups describe_groups(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  CheckedGroups call;
  call.groups = s.groups, call.rows = s.rows;
  call.m = s.m, call.k = s.k;
  call.along_sums = call.a_by_terms = s.along_sums ? 1 : 0;
  call.b_by_terms = s.trans_b ? 0 : 1;
  call.gather = s.gather, call.sources = s.sources;
  call.cuts_off = s.dtype == DType::kF32 ? 0 : 1;
  call.c.rows = s.along_sums ? s.groups * s.m : s.rows;
  call.c.columns = s.n;
  if (operands.empty()) return call;
  call.a = device_matrix(operands[kA]);
  call.b = device_matrix(operands[kB]);
  call.c = device_matrix(operands[s.c()]);
  call.offsets = device_matrix(operands[kOffsetsOperand]);
  if (s.gather != kNone) call.index = device_matrix(operands[kIndex]);
  if (s.accumulate) call.old = device_matrix(operands[s.c() + 1]);
  return call;
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() { return grouped_device_check(describe_groups); }

}  // namespace ridge::ops::grouped_gemm
