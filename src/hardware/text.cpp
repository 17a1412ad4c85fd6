#include "hardware/text.h"

#include <algorithm>

namespace ridge::hardware {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

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
