// The rule people write down and apply by eye, computed literally so that it can be shown beside the tested decision,
// with any disagreement. It decides nothing: as written it lets 7 to 80 % of campaigns without a real gain accept one.
#pragma once

#include <string>
#include <vector>

namespace ridge::stats {

struct PlainRuleInput {
  double aggregate_gain = 0;        // new / old - 1 of the suite's geometric mean; 0.03 = 3 % up
  std::vector<std::string> labels;  // of the shapes
  std::vector<double> shape_gains;  // new / old - 1 of each shape's speed
  std::vector<double> remeasured;   // aggregate gains of repeated measurements
};

struct PlainRule {
  bool accepts = false;
  bool with_note = false;  // accepted although a shape lost less than 5 %
  std::string reason;
};

// Accepts if the aggregate is up (> 0), no shape is at -5 % or below, and, when the gain is under 2 %, there are at
// least three re-measurements whose mean is above 1 % with a standard deviation below half that mean. NaN never passes.
PlainRule plain_rule(const PlainRuleInput& input);

}  // namespace ridge::stats
