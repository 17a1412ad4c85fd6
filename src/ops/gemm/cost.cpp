#include "ops/gemm/gemm.h"

namespace ridge::ops::gemm {

record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k);
  const double in = size_bits(s.dtype) / 8.0, out = size_bits(s.out) / 8.0;
  record::Cost cost;
  if (s.batch == 0 || s.m == 0 || s.n == 0) return cost;  // C has no element: A and B are not read
  const auto batch = static_cast<double>(s.batch);
  cost.flop = batch * 2.0 * m * n * k;
  cost.bytes = batch * ((m * k + k * n) * in + m * n * out * (s.accumulate || s.residual ? 2.0 : 1.0)) +
               (s.bias ? n * out : 0.0);
  return cost;
}

}  // namespace ridge::ops::gemm
