// Whether samples can be what a clock saw. Refused: a session that is another one again, also when one arm was scaled;
// sessions that overlap or run backwards; times between the steps of the clock that took them; arms that ran in another
// order than the coin of the session gives. This finds records that
// were put together from others; it cannot find one that was invented with care (docs/campaigns.md).
//
// Sessions of this version carry when they began ("began", of a clock that never goes back) and the step that every
// sample is a multiple of ("clock_step"), and the seed from which the order of its arms was drawn ("coin"); older ones
// are held to what they have.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "record/journal.h"

namespace ridge::campaign {

// The first objection to the sessions of one evaluation, in the order they are recorded; empty: none.
std::string session_objection(const std::vector<record::Session>& sessions);

// The objection to two sessions being two measurements; empty: none. What they have in common must be worth 50 bits:
// sessions of a coarse clock may agree by chance.
std::string repetition(const record::Session& a, const record::Session& b);

// The objections to a whole journal: line, from 1, and why. Beside those to every evaluation: a session that stands in
// two lines; lines whose sessions took longer than the time between it and the line before; sessions without stamps
// in a campaign that stamps. Counts the sessions, and those without stamps.
std::vector<std::pair<std::int64_t, std::string>> implausible_lines(const std::vector<record::Event>& events,
                                                                    std::int64_t& sessions, std::int64_t& without);

// Sessions without the stamps of this version.
std::int64_t unstamped(const std::vector<record::Session>& sessions);

}  // namespace ridge::campaign
