#include "ops/combine_rows/backward/backward.h"

namespace ridge::ops::combine_rows_backward {

record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  record::Cost cost = combine_rows::cost(problem);  // dy lies where y does
  cost.bytes += static_cast<double>(size_bytes(DType::kF32, s.rows * s.top));
  return cost;
}

}  // namespace ridge::ops::combine_rows_backward
