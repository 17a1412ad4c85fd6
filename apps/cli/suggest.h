// Names that are close to a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge::cli {

// The known names within a third of the letters of `typed` (at least one, insertions, deletions, substitutions and
// swapped neighbours counted alike), and those that `typed` abbreviates; the closest first, at most three.
std::vector<std::string> close_names(std::string_view typed, const std::vector<std::string>& known);

// "did you mean bench or baseline?"; empty where no name is close.
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known);

}  // namespace ridge::cli
