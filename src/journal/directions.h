// What is left to try in a campaign: its open directions, for the next hypothesis and for people.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "journal/fold.h"
#include "record/iteration.h"

namespace ridge::journal {

// Tunables that the source of `incumbent` declares and that no measured round was about.
std::vector<record::Direction> untried_tunables(const record::Candidate& incumbent,
                                                std::span<const Round* const> rounds);

// What was begun and not measured or not settled, then what the last review of a stagnation named, then the untried
// tunables of the incumbent; each once, the first kMostOpenDirections of them.
inline constexpr std::size_t kMostOpenDirections = 8;
std::vector<record::OpenDirection> open_directions(const State& state);
// The same as it stood when so many rounds were closed and so many escalations gathered.
std::vector<record::OpenDirection> open_directions(const State& state, std::size_t rounds, std::size_t escalations);

}  // namespace ridge::journal
