#include "ops/grouped_gemm_fp8/grouped_gemm_fp8.h"

namespace ridge::ops::grouped_gemm_fp8 {

// Of offsets that leave no row out.
record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  record::Cost cost;
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes +=
        (operand.read_write ? 2.0 : 1.0) * static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  cost.flop =
      2.0 * static_cast<double>(s.rows) * static_cast<double>(s.along_sums ? s.m : s.k) * static_cast<double>(s.n);
  return cost;
}

}  // namespace ridge::ops::grouped_gemm_fp8
