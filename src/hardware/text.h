// Lines of a text with their numbers, without a copy.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace ridge::hardware {

// (1, first line), (2, second line), ...
std::vector<std::pair<int, std::string_view>> lines(std::string_view text);

}  // namespace ridge::hardware
