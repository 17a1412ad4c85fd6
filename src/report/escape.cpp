#include "report/escape.h"

#include <cctype>
#include <cstdint>

namespace ridge::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Decoded {
  std::uint32_t code = 0;
  std::size_t size = 0;  // 0: not a valid sequence
};

// Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
Decoded decode(std::string_view text) {
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
  return overlong || surrogate || code > 0x10FFFF ? Decoded{} : Decoded{code, size};
}

bool harmful(std::uint32_t code) {
  const bool control = (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0);
  const bool direction = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return control || direction || code == 0xFFFE || code == 0xFFFF;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::string clean_utf8(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    if (text.starts_with("\r\n")) text.remove_prefix(1);
    const Decoded next = decode(text);
    if (next.size == 0 || harmful(next.code)) {
      clean += kReplacement;
    } else {
      clean += text.substr(0, next.size);
    }
    text.remove_prefix(next.size == 0 ? 1 : next.size);
  }
  return clean;
}

std::string escape_html(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : clean_utf8(text)) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string escape_markdown(std::string_view text) {
  const std::string clean = clean_utf8(text);
  std::string escaped;
  escaped.reserve(clean.size());
  for (std::size_t i = 0; i < clean.size(); ++i) {
    const char c = clean[i];
    const bool inside_word = i > 0 && i + 1 < clean.size() && is_word(clean[i - 1]) && is_word(clean[i + 1]);
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '\n':
      case '\t': escaped += ' '; break;
      case '_': escaped += inside_word ? "_" : "\\_"; break;
      case '#': escaped += i == 0 ? "\\#" : "#"; break;
      case '\\':
      case '`':
      case '*':
      case '[':
      case ']':
      case '~':
      case '|':
        escaped += '\\';
        escaped += c;
        break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string one_line(std::string_view text, std::size_t limit) {
  std::string clean = clean_utf8(text);
  for (char& c : clean) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  if (length_utf8(clean) <= limit) return clean;
  std::string cut;
  std::size_t length = 0;
  for (const char c : clean) {
    if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U && ++length >= limit) break;
    cut += c;
  }
  return cut + "…";
}

std::size_t length_utf8(std::string_view text) {
  std::size_t length = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) ++length;
  }
  return length;
}

}  // namespace ridge::report
