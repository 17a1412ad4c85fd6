// What a proposal must satisfy before anything is built. A refusal is not a round: the proposer is told why and asked
// again.
#pragma once

#include <span>
#include <string>

#include "campaign/fold.h"

namespace ridge::campaign {

struct ProposalRule {
  const char* name;
  // Why the proposal is refused, with the values; empty: it passes.
  std::string (*refusal)(const record::Proposal& proposal, const State& state);
};
std::span<const ProposalRule> proposal_rules();

// The first refusal as "rule: reason", or empty. `exhausted` proposals pass.
std::string refuse(const record::Proposal& proposal, const State& state);

}  // namespace ridge::campaign
