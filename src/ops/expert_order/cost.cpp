#include "ops/expert_order/expert_order.h"

namespace ridge::ops::expert_order {

// One operation for each choice.
record::Cost cost(const Problem& problem) {
  record::Cost cost;
  cost.flop = static_cast<double>(problem.operands.front().element_count());
  for (const OperandSpec& spec : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(spec.dtype, spec.element_count()));
  }
  return cost;
}

}  // namespace ridge::ops::expert_order
