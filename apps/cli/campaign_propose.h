// ridge campaign propose: one round by hand.
#pragma once

#include "command.h"

namespace ridge::cli {

void define_campaign_propose(Command group);

}  // namespace ridge::cli
