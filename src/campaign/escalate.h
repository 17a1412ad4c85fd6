// Rollbacks in a row ask for more: after the first a diagnosis, after the second a fresh measurement and
// classification, after the third a look at the instructions against a reference, after the fourth the best known
// implementation. The next hypothesis waits until that evidence exists for the build it is about. From the second on
// there is also a review with directions out of categories that were not used of late. None of it ends a campaign.
#pragma once

#include "campaign/state.h"

namespace ridge::campaign {

inline constexpr std::int64_t kMostEscalation = 4;
inline constexpr std::int64_t kEscalationRule = 68;  // of the registry; waived, no evidence is gathered

// Rolled back directly before `round`, one after the other. A round that the harness lost counts for nothing.
std::int64_t rollbacks_before(const State& state, std::int64_t round);
// The last round before `round` that was rolled back for what it was, or null.
const Round* last_refuted(const State& state, std::int64_t round);

// The level that the next hypothesis needs, 0 to 4.
std::int64_t escalation_due(const State& state, std::int64_t round);
// The evidence recorded for it, or null.
const record::Escalated* escalation_of(const State& state, std::int64_t round);
// Whether a review is due too: two rollbacks in a row, or three rounds of one category without a gain.
bool review_due(const State& state, std::int64_t round);
// At least three directions from at least two categories that the last three rounds did not use: untried options of the
// source first, then entries of the knowledge pages that no round named, in their order.
std::vector<record::Direction> review(const State& state, std::int64_t round,
                                      const std::vector<record::KnowledgeEntry>& entries);
// Level 1: what the rolled-back round expected, what it measured, and the gate that stopped it.
std::vector<std::string> diagnose(const Round& round);

}  // namespace ridge::campaign
