// What must hold between the facts of one product, whatever a source prints: a peak is units times work per clock times
// clock, 2:4 sparsity doubles, halving the bits of a type doubles its rate, bandwidth is width times rate, and the
// limits of a unit fit into each other. A fact that breaks one of these is refused.
#pragma once

#include <string>
#include <vector>

#include "hardware/spec.h"

namespace ridge::hardware {

struct Violation {
  std::string rule;     // "peak", "sparse", "ladder", "bandwidth", "count", "limit", "range", "formula"
  std::string metric;   // the fact that cannot be
  std::string message;  // with the values
};

std::vector<Violation> check_physics(const Spec& spec);

}  // namespace ridge::hardware
