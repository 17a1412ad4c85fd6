// What the decided rounds of a campaign have to tell the next one.
#pragma once

#include <vector>

#include "campaign/state.h"
#include "knowledge/tips.h"

namespace ridge::campaign {

// One for each accepted round and for each that was measured and refuted, oldest first: not those without a verdict, of
// a masked round, or that hygiene refuses. Deterministic; every figure is a measured one.
std::vector<knowledge::NewTip> tips_of(const State& state);

}  // namespace ridge::campaign
