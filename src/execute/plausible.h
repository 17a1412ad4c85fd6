// Whether what a candidate's tables claim to save is missing from the wall time of its processes.
#pragma once

#include <span>
#include <string>

namespace ridge::execute {

// One process of an arm: how long it ran by our clock, and what its table claims for one launch of every shape;
// seconds.
struct TimedProcess {
  double wall = 0, claimed = 0;
};

// Why a saving cannot be real: less than half of it is missing from the median wall time, beside what the walls of each
// arm differ among themselves. Empty: it may be, or there is nothing to tell by (fewer than six processes of an arm, or
// a project that does not say how many launches a process makes).
std::string implausible_saving(double launches, std::span<const TimedProcess> incumbent,
                               std::span<const TimedProcess> candidate);

}  // namespace ridge::execute
