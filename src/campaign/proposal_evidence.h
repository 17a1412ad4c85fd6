// What a hypothesis rests on: its evidence must exist, and its bottleneck must not contradict what was measured.
#pragma once

#include <string>

#include "campaign/proposal_rules.h"

namespace ridge::campaign {

// Names an evidence id that no record has; empty: all exist. Known are candidate ids, digests of built objects,
// "round-N" of closed rounds, and the names of what a request holds (roofline, ceilings, build, environment, ...).
std::string unknown_evidence(const ProposalView& view);

// Why the claimed class contradicts the counters and the roofline of the incumbent; empty: it does not.
std::string bottleneck_without_evidence(const ProposalView& view);

// The incumbent's figures at the time: where it stands on the roofline, and what its build and profile count.
struct Standing {
  std::vector<record::RooflinePoint> roofline;
  std::map<std::string, double> counters;
};
Standing standing_of(const ProposalView& view);

}  // namespace ridge::campaign
