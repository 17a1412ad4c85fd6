#include "ops/grouped_gemm_fp8/grouped_gemm_fp8.h"

namespace ridge::ops::grouped_gemm_fp8 {

// Of offsets that leave no row out. Of a gathered A at most as many rows are read as there are, with their scales.
record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  record::Cost cost;
  const double read_of_a =
      s.gather && s.sources > s.rows ? static_cast<double>(s.rows) / static_cast<double>(s.sources) : 1;
  for (std::size_t at = 0; at < problem.operands.size(); ++at) {
    const OperandSpec& operand = problem.operands[at];
    const bool of_a = at == kA || (at == kScaleA && s.scaling != GroupedFp8Scaling::kTensor);
    cost.bytes += (operand.read_write ? 2.0 : 1.0) * (of_a ? read_of_a : 1) *
                  static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  cost.flop =
      2.0 * static_cast<double>(s.rows) * static_cast<double>(s.along_sums ? s.m : s.k) * static_cast<double>(s.n);
  return cost;
}

}  // namespace ridge::ops::grouped_gemm_fp8
