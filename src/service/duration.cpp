#include "service/duration.h"

#include <cctype>
#include <string>

#include "base/error.h"

namespace ridge::service {

Result<double> parse_duration(std::string_view text) {
  const Error refused = with_hint(invalid("\"{}\" is not a duration", text), "write for instance 90s, 5m or 1h30m");
  double total = 0;
  std::size_t position = 0;
  while (position < text.size()) {
    std::size_t end = position;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (end == position || end - position > 9 || end == text.size()) return refused;
    const double number = std::stod(std::string(text.substr(position, end - position)));
    switch (text[end]) {
      case 's': total += number; break;
      case 'm': total += 60 * number; break;
      case 'h': total += 3600 * number; break;
      default: return refused;
    }
    position = end + 1;
  }
  if (total <= 0) return refused;
  return total;
}

}  // namespace ridge::service
