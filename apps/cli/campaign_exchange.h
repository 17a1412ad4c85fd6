// ridge campaign export, ridge campaign import.
#pragma once

#include "command.h"

namespace ridge::cli {

void define_campaign_exchange(Command& group);

}  // namespace ridge::cli
