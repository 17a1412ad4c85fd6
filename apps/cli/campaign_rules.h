// ridge campaign rules, ridge campaign waive.
#pragma once

#include "command.h"

namespace ridge::cli {

void define_campaign_rules(Command& group);

}  // namespace ridge::cli
