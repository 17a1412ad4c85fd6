#include "ops/combine_rows/combine_rows.h"

namespace ridge::ops::combine_rows {

// A row of x for each source, whichever they are.
record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  const auto bytes = [](DType dtype, std::int64_t count) { return static_cast<double>(size_bytes(dtype, count)); };
  const std::int64_t places = s.rows * s.top;
  record::Cost cost;
  cost.flop = 2.0 * static_cast<double>(places) * static_cast<double>(s.cols);
  cost.bytes = bytes(s.dtype, (places + s.rows) * s.cols) + bytes(s.index, places);
  if (s.weights) cost.bytes += bytes(DType::kF32, places);
  return cost;
}

}  // namespace ridge::ops::combine_rows
