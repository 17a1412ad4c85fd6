// A round by hand: what a person states on the command line (`ridge campaign propose`) as a proposer's answer.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "propose/proposer.h"
#include "record/agent.h"

namespace ridge::propose {

struct ByHand {
  std::string by;                 // who, for the record: "manual:NAME"; may be empty
  record::Hypothesis hypothesis;  // as stated: what is empty is derived from the request
  record::AgentChange change;     // of the incumbent
  std::string give_up;            // why the open round is not repaired; set: nothing of the change counts
  std::optional<record::Usage> usage;
};

// What was stated, completed from the request and checked like the answer of a program. An expected gain that the
// campaign cannot accept, or that the incumbent's distance from its measured bound does not leave room for, is refused.
Result<record::Proposal> proposal_by_hand(const record::ProposalRequest& request, const ByHand& stated);

// Gives what was stated once, and waits for the next one.
std::unique_ptr<Proposer> make_by_hand(ByHand stated);

}  // namespace ridge::propose
