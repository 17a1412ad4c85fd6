// Rules that a proposal must meet before it opens an attempt. A refusal goes back to the proposer as `last_error`; it
// costs no error budget, and nothing is built. The same functions answer for the record later (rules/), so a proposal
// that was let through wrongly is found.
#pragma once

#include <span>
#include <string>

#include "campaign/state.h"

namespace ridge::campaign {

// A proposal and what it was an answer to, as it was then.
struct ProposalView {
  const record::Proposal& proposal;
  const State& state;
  std::int64_t round = 2;
  const record::Candidate& incumbent;
  std::int64_t incumbent_round = 1;
  const Attempt* repaired = nullptr;  // the attempt that failed, when this one repairs it
};

struct ProposalRule {
  int rule;  // of the registry
  const char* name;
  // Why the proposal is refused, with the values; empty: it passes.
  std::string (*refusal)(const ProposalView& view);
};
std::span<const ProposalRule> proposal_rules();

// The first refusal as "name: reason", or empty. `exhausted` proposals pass.
std::string refuse(const record::Proposal& proposal, const State& state);

}  // namespace ridge::campaign
