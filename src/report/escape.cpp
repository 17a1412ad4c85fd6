#include "report/escape.h"

#include <cctype>

#include "base/visible.h"

namespace ridge::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::string clean_utf8(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    if (text.starts_with("\r\n")) text.remove_prefix(1);
    const CodePoint next = first_code_point(text);
    if (next.size == 0 || is_steering(next.code)) {
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
