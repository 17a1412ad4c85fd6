// The final comparison once more on another device (`replicate_on`): when it is due, what is said of it, and what
// speaks against a record of it. It decides nothing.
#pragma once

#include <string>

#include "campaign/state.h"

namespace ridge::campaign {

// Whether the manifest asks for it.
bool replica_asked(const State& state);
// Whether it is the next thing to do: a best that is not the baseline was measured, and not yet there.
bool replica_due(const State& state);

// "On another device, NVIDIA H200 of host n7: 1.410x (1.400x to 1.420x over 8 sessions); it agrees on all 5 shapes", or
// why there is none. `measured`: the final measurement that it repeats.
std::string replica_text(const State& state, const record::Final& measured, const record::Replicated& replicated);
std::string replica_text(const State& state, const record::Replicated& replicated);

// What a recorded replica says that manifest, final measurement and its own samples do not; empty: nothing. `state`:
// before it was recorded.
std::string replica_objection(const State& state, const record::Replicated& stored);

}  // namespace ridge::campaign
