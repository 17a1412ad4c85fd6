// What a hypothesis, a tunable and an entry of the knowledge pages may be about.
#pragma once

#include <string_view>

namespace ridge::record {

inline constexpr std::string_view kCategories[] = {"tile", "layout", "pipeline", "resource", "backend", "algorithm"};

}  // namespace ridge::record
