// What the proposer of the next round is told.
#pragma once

#include <string>

#include "record/campaign.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

// kConflict before the baseline stands and after the campaign's end.
Result<record::ProposalRequest> context_of_campaign(const Context& context, const std::string& directory);

}  // namespace ridge::service
