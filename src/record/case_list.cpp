#include "record/case_list.h"

#include "base/error.h"

namespace ridge::record {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (true) {
    const std::size_t end = text.find(separator, start);
    parts.push_back(text.substr(start, end - start));
    if (end == std::string::npos) return parts;
    start = end + 1;
  }
}

constexpr std::size_t kMaxCases = 10'000;

}  // namespace

Result<std::vector<Case>> expand_cases(const std::string& op, const std::vector<std::string>& words) {
  std::string text = op;
  for (const std::string& word : words) text += " " + word;
  RIDGE_TRY(pattern, parse_case(text));
  std::vector<Case> cases = {Case{op, {}}};
  for (const Param& param : pattern.params) {
    std::vector<Case> longer;
    for (const Case& shorter : cases) {
      for (const std::string& value : split(param.value, ',')) {
        if (value.empty()) return invalid("{}={} has an empty value in its list", param.name, param.value);
        Case next = shorter;
        next.params.push_back({param.name, value});
        longer.push_back(std::move(next));
      }
    }
    if (longer.size() > kMaxCases) return invalid("{} describes more than {} cases", text, kMaxCases);
    cases = std::move(longer);
  }
  return cases;
}

}  // namespace ridge::record
