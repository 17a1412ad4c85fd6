#include "base/visible.h"

#include <fmt/format.h>

namespace ridge {
namespace {

// Bytes of a sequence at the beginning that sets colours, "ESC [ 1 ; 31 m"; 0: there is none.
std::size_t color_sequence(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && end < 16 && text[end] == 'm' ? end + 1 : 0;
}

std::string shown(std::string_view text, bool colors) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const CodePoint next = first_code_point(text);
    std::size_t size = next.size == 0 ? 1 : next.size;
    const std::size_t color = colors ? color_sequence(text) : 0;
    if (color > 0 || text.starts_with("\r\n")) {
      size = color > 0 ? color : 2;
      safe += text.substr(0, size);
    } else if (next.size == 0) {
      safe += "\xEF\xBF\xBD";
    } else if (is_steering(next.code)) {
      safe += fmt::format("\\u{:04x}", next.code);
    } else {
      safe += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return safe;
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (size == 0 || first > 0xF4 || text.size() < size) return {};
  std::uint32_t code = first & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return overlong || surrogate || code > 0x10FFFF ? CodePoint{} : CodePoint{code, size};
}

bool is_steering(std::uint32_t code) {
  const bool control = (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0);
  const bool direction = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return control || direction || code == 0xFFFE || code == 0xFFFF;
}

std::string short_line(std::string_view text, std::size_t most) {
  constexpr std::string_view kMore = "...";
  std::string line;
  std::size_t whole = 0;  // bytes of the line that leave room for kMore
  while (!text.empty()) {
    const CodePoint next = first_code_point(text);
    const std::size_t size = next.size == 0 ? 1 : next.size;
    if (next.size == 0)
      line += "\xEF\xBF\xBD";
    else if (is_steering(next.code) || next.code == '\n' || next.code == '\t')
      line += ' ';
    else
      line += text.substr(0, size);
    if (line.size() > most) {
      line.resize(whole);
      return line.append(kMore, 0, most);
    }
    if (line.size() + kMore.size() <= most) whole = line.size();
    text.remove_prefix(size);
  }
  return line;
}

std::string visible(std::string_view text) { return shown(text, false); }
std::string visible_with_colors(std::string_view text) { return shown(text, true); }

}  // namespace ridge
