// From a program's answer to a proposal: everything is checked against the request, nothing numeric is believed except
// the values of tunables, and those must be declared and satisfy every constraint.
#pragma once

#include "record/agent.h"
#include "record/campaign.h"
#include "ridge/result.h"

namespace ridge::propose {

// An error names the field and what was wrong with it.
Result<record::Proposal> to_proposal(const record::ProposalRequest& request, const record::AgentAnswer& answer);

}  // namespace ridge::propose
