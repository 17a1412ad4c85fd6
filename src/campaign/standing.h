// What a campaign can say of its figures wherever it stopped: the baseline with its interval, the smallest gain that
// this machine decides, and the best that was seen and not decided.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "campaign/state.h"

namespace ridge::campaign {

// The fastest candidate that was measured against the present incumbent in a round that settled nothing (noise, a
// fault, the end of the budget). Unverified: no error control stands behind its ratio.
struct Provisional {
  std::int64_t round = 0;
  std::string title;
  double ratio = 1;  // median of the sessions there are, screening included
  std::int64_t sessions = 0;
};
std::optional<Provisional> provisional_best(const State& state);

// Sentences for a person; empty before the baseline is measured.
std::vector<std::string> standing(const State& state);

}  // namespace ridge::campaign
