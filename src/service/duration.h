// Durations as a person writes them.
#pragma once

#include <string_view>

#include "ridge/result.h"

namespace ridge::service {

// "5m", "90s", "1h30m", "2h" in seconds.
Result<double> parse_duration(std::string_view text);

}  // namespace ridge::service
