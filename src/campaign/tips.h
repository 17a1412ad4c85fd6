// What a finished campaign has to tell the next one.
#pragma once

#include <vector>

#include "campaign/state.h"
#include "knowledge/tips.h"

namespace ridge::campaign {

// At most five: the largest accepted gains, then the clearest failures. Deterministic; every figure is a measured one.
std::vector<knowledge::NewTip> tips_of(const State& state);

}  // namespace ridge::campaign
