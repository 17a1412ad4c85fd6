#include "ops/grouped_quantize/grouped_quantize.h"

namespace ridge::ops::grouped_quantize {

// Of offsets that leave no row out; codes and scales up to the capacity, which are written whatever the offsets.
record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  record::Cost cost = coding::cost_of(problem, coding_of(problem));
  if (s.of != GroupedQuantizeOf::kRows) cost.flop += 14 * static_cast<double>(s.rows) * static_cast<double>(s.cols);
  if (s.dprobs) cost.flop += 1.5 * static_cast<double>(s.rows) * static_cast<double>(s.cols);
  return cost;
}

}  // namespace ridge::ops::grouped_quantize
