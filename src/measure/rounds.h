// Interleaving of any number of subjects: every round launches each once in a random order, then once more in the
// reverse order. The two launches of every subject have the same mean position, so a linear drift cancels in the ratio
// of any two of them; for two subjects this is a quad ABBA or BAAB.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "measure/quads.h"

namespace ridge::measure {

// The two latencies of each subject, in seconds; nothing for one whose launch failed, now or in an earlier round.
using Round = std::vector<std::optional<std::array<double, 2>>>;

// One launch of a subject; nothing when it failed, and the subject is not launched again.
using LaunchSubject = std::function<std::optional<double>(std::size_t)>;

std::vector<Round> run_rounds(const LaunchSubject& launch, std::size_t subjects, std::int64_t rounds, Coin& coin);

}  // namespace ridge::measure
