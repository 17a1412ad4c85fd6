#include "hardware/text.h"

#include <algorithm>

namespace ridge::hardware {

std::vector<std::pair<int, std::string_view>> lines(std::string_view text) {
  std::vector<std::pair<int, std::string_view>> result;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    result.emplace_back(number, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

}  // namespace ridge::hardware
