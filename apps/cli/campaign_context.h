// ridge campaign context.
#pragma once

#include "command.h"

namespace ridge::cli {

void define_campaign_context(Command& group);

}  // namespace ridge::cli
