#include "ops/symmetric_product/symmetric_product.h"

namespace ridge::ops::symmetric_product {

record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  const auto n = static_cast<double>(s.n), k = static_cast<double>(s.k), batch = static_cast<double>(s.batch);
  const double in = size_bits(s.dtype) / 8.0, out = size_bits(s.out) / 8.0;
  const double half = n * (n + 1) / 2;
  record::Cost cost;
  cost.flop = batch * 2 * half * k;
  cost.bytes = batch * (n * k * in + n * n * out + (s.residual ? half * out : 0));
  return cost;
}

}  // namespace ridge::ops::symmetric_product
