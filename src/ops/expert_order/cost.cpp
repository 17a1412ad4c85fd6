#include "ops/expert_order/expert_order.h"

namespace ridge::ops::expert_order {

// An operation for each choice: it is counted.
record::Cost cost(const Problem& problem) {
  record::Cost cost;
  cost.flop = static_cast<double>(shape_of(problem).count());
  for (const OperandSpec& spec : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(spec.dtype, spec.element_count()));
  }
  return cost;
}

}  // namespace ridge::ops::expert_order
