// ridge tune replay: how a search does on recorded measurements.
#pragma once

#include "command.h"

namespace ridge::cli {

void define_tune_replay(Command& tune);

}  // namespace ridge::cli
