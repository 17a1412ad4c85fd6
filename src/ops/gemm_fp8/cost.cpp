#include "ops/gemm_fp8/gemm_fp8.h"

namespace ridge::ops::gemm_fp8 {

record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  record::Cost cost;
  if (s.m == 0 || s.n == 0) return cost;  // C has no element: A and B are not read
  for (const OperandSpec& operand : problem.operands) {
    const double passes = operand.read_write ? 2 : 1;
    cost.bytes += passes * static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  cost.flop = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  return cost;
}

}  // namespace ridge::ops::gemm_fp8
