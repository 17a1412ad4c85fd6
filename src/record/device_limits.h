// What an administrator may have changed of a GPU, and its speed depends on.
#pragma once

#include <string>

#include "record/measurement.h"

namespace ridge::record {

// Its power limit and largest clocks, as far as the driver says: "700 W, 1980 MHz, memory 2619 MHz". Empty: a
// processor, or a driver that says nothing.
std::string device_limits(const Environment& environment);

}  // namespace ridge::record
