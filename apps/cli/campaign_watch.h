// ridge campaign watch.
#pragma once

#include "command.h"

namespace ridge::cli {

void define_campaign_watch(Command& group);

}  // namespace ridge::cli
