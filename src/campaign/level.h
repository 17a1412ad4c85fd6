// Validation levels: quick is the representative shapes, full all target shapes, by the same timing engine. A quick
// look can only reject; what passes it is measured in full, and only that is accepted.
#pragma once

#include <string>
#include <vector>

#include "campaign/state.h"

namespace ridge::campaign {

// The cases of a level; an unknown level has none.
std::vector<record::Case> cases_of_level(const State& state, const std::string& level);
std::vector<std::string> labels_of_level(const State& state, const std::string& level);

// Whether a round begins with a quick look: only when that is less than all shapes.
bool quick_pays(const State& state);

// Why full validation is mandatory before an accept.
struct FullReasons {
  bool small_gain = false;  // under 5 %
  bool risky = false;       // source changed: control flow, layout, synchronisation, caches, backend
  bool end_of_direction = false;
  bool final_acceptance = false;
  [[nodiscard]] std::string text() const;
};
FullReasons full_reasons(const State& state, const Round& round);

}  // namespace ridge::campaign
