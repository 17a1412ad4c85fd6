// ridge campaign list, ridge campaign export-kernel: what campaigns there are, and what one of them is for.
#pragma once

#include "command.h"

namespace ridge::cli {

void define_campaign_list(Command& group);

}  // namespace ridge::cli
