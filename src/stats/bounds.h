// How large the numbers of a sequential rule may be. They come from files and flags as 64-bit numbers: they are
// narrowed here, and what does not fit becomes the value that decides nothing wrongly.
#pragma once

#include <algorithm>
#include <cstdint>

#include "stats/decide.h"

namespace ridge::stats {

// More decisions than a campaign can have rounds share no alpha.
inline constexpr std::int64_t kMostDecisions = 120, kMostSessions = 10'000;
// Quads of a session and launches of a block: more is hours for one number.
inline constexpr std::int64_t kMostCount = 1000;
inline int bounded_count(std::int64_t count) {
  return static_cast<int>(std::clamp<std::int64_t>(count, 1, kMostCount));
}

// The rule of those numbers. A count outside of what is allowed can accept nothing: its evidence is out of reach.
inline SequentialRule bounded_rule(double min_effect, double alpha, std::int64_t decisions, std::int64_t sessions) {
  SequentialRule rule;
  rule.min_effect = min_effect;
  rule.alpha = alpha;
  const bool usable = decisions >= 1 && decisions <= kMostDecisions && sessions >= 1 && sessions <= kMostSessions &&
                      alpha > 0 && alpha < 1;
  rule.max_decisions = static_cast<int>(std::clamp<std::int64_t>(decisions, 1, kMostDecisions));
  rule.max_sessions = static_cast<int>(std::clamp<std::int64_t>(sessions, 1, kMostSessions));
  if (!usable) {  // one session cannot reach infinite evidence; validate() refuses it
    rule.alpha = 0;
    rule.max_sessions = 1;
  }
  return rule;
}

}  // namespace ridge::stats
