// The state of a campaign and the numbers of its samples, as the engine reads them from its journal: the report reads
// them with the same code.
#pragma once

#include "journal/directions.h"
#include "journal/fold.h"
#include "journal/protocol.h"
#include "journal/samples.h"

namespace ridge::campaign {

using namespace journal;

}  // namespace ridge::campaign
