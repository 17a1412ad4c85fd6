#include "base/malformed.h"

#include <fmt/format.h>

#include "base/text.h"
#include "base/visible.h"

namespace ridge {
namespace {

constexpr std::size_t kMostShown = 60;

std::string line_of(std::string_view text, std::size_t line) {
  std::size_t start = 0;
  for (std::size_t number = 1; number < line && start < text.size(); ++number) {
    const std::size_t end = text.find('\n', start);
    if (end == std::string_view::npos) break;
    start = end + 1;
  }
  const std::string_view whole = trimmed(text.substr(start, text.find('\n', start) - start));
  std::string shown = visible(whole.substr(0, kMostShown));
  return whole.size() > kMostShown ? shown + " ..." : shown;
}

std::string problem(std::string_view text, std::size_t line, std::string_view described, std::string_view expected) {
  const auto says = [&](std::string_view word) { return described.find(word) != std::string_view::npos; };
  std::string what = fmt::format("expected {}", expected);
  if (says("redefine") || says("duplicate") || says("already")) what = "its key or table is there already";
  if (says("UTF-8") || says("utf-8") || says("nicode")) what = "expected text in UTF-8";
  const std::string shown = line_of(text, line);
  return shown.empty() ? what : fmt::format("\"{}\": {}", shown, what);
}

}  // namespace

std::string toml_problem(std::string_view text, std::size_t line, std::string_view described) {
  return problem(text, line, described, "NAME = VALUE with texts in quotes, [TABLE], or # and a comment");
}

std::string yaml_problem(std::string_view text, std::size_t line, std::string_view described) {
  return problem(text, line, described, "NAME: VALUE or - ITEM, indented by blanks");
}

}  // namespace ridge
