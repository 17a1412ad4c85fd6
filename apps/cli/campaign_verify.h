// ridge campaign verify, replay, and the keys that anchor a campaign.
#pragma once

#include "command.h"
#include "record/listing.h"
#include "ridge/result.h"

namespace ridge::cli {

void define_campaign_verify(Command& group);
// The differences and the summary, or all of it as JSON; kNo when it does not hold.
int print_audit(const Result<record::Audit>& found);

}  // namespace ridge::cli
