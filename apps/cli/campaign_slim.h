// ridge campaign slim and restore.
#pragma once

#include "command.h"

namespace ridge::cli {

void define_campaign_slim(Command& group);

}  // namespace ridge::cli
