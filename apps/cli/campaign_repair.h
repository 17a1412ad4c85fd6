// ridge campaign repair.
#pragma once

#include "command.h"

namespace ridge::cli {

void define_campaign_repair(Command& group);

}  // namespace ridge::cli
