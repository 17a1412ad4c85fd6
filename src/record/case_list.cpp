#include "record/case_list.h"

#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace ridge::record {
namespace {

constexpr std::size_t kMaxCases = 10'000;

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The three parts of a range and how its step is meant.
struct Range {
  std::string first, last, step;
  bool multiply = false;
};

// "first:last:step", "first:last:*factor", "first..last", "first..last+step", "first..last*factor" or "..x" for "*".
std::optional<Range> read_range(const std::string& item) {
  if (const std::size_t dots = item.find(".."); dots != std::string::npos) {
    const std::string rest = item.substr(dots + 2);
    const std::size_t sign = rest.find_first_of("+*x");
    if (sign == std::string::npos) return Range{item.substr(0, dots), rest, "1", false};
    return Range{item.substr(0, dots), rest.substr(0, sign), rest.substr(sign + 1), rest[sign] != '+'};
  }
  const std::vector<std::string> parts = split(item, ':');
  if (parts.size() != 3) return std::nullopt;
  const bool multiply = parts[2].starts_with('*');
  return Range{parts[0], parts[1], parts[2].substr(multiply ? 1 : 0), multiply};
}

Result<std::vector<std::string>> expand_range(const std::string& word, const std::string& item) {
  const auto refused = [&](std::string_view why) {
    return with_hint(
        invalid("{}: the range {} {}", word, item, why),
        "write first..last, first..last+step or first..lastxfactor, for instance 64..256+64 or 512..4096x2");
  };
  const std::optional<Range> range = read_range(item);
  if (!range) return refused("needs three parts");
  const bool multiply = range->multiply;
  const auto first = whole_number(range->first), last = whole_number(range->last), step = whole_number(range->step);
  if (!first || !last || !step) return refused("has a part that is not a whole number");
  if (*first < 0 || *last < *first) return refused("runs backwards");
  if (*step < (multiply ? 2 : 1) || (multiply && *first == 0)) return refused("never ends");
  std::vector<std::string> values;
  for (std::int64_t value = *first; value <= *last;) {
    values.push_back(std::to_string(value));
    if (values.size() > kMaxCases) return refused(fmt::format("has more than {} values", kMaxCases));
    if (multiply ? value > *last / *step : value > *last - *step) break;  // the next one could overflow
    value = multiply ? value * *step : value + *step;
  }
  return values;
}

Result<std::vector<std::string>> values_of(const Param& param) {
  const std::string word = param.name + "=" + param.value;
  std::vector<std::string> values;
  for (const std::string& item : split(param.value, ',')) {
    if (item.empty()) return invalid("{} has an empty value in its list", word);
    if (item.find(':') == std::string::npos && item.find("..") == std::string::npos) {
      values.push_back(item);
      continue;
    }
    RIDGE_TRY(range, expand_range(word, item));
    values.insert(values.end(), range.begin(), range.end());
  }
  return values;
}

// Every combination of the values of one case's parameters.
Result<std::vector<Case>> combinations(const std::string& text) {
  RIDGE_TRY(pattern, parse_case(text));
  std::vector<Case> cases = {Case{pattern.op, {}}};
  for (const Param& param : pattern.params) {
    RIDGE_TRY(values, values_of(param));
    if (values.size() * cases.size() > kMaxCases) return invalid("{} describes more than {} cases", text, kMaxCases);
    std::vector<Case> longer;
    for (const Case& shorter : cases) {
      for (const std::string& value : values) {
        Case next = shorter;
        next.params.push_back({param.name, value});
        longer.push_back(std::move(next));
      }
    }
    cases = std::move(longer);
  }
  return cases;
}

}  // namespace

Result<std::vector<Case>> expand_cases(const std::string& op, const std::vector<std::string>& words) {
  std::string common;
  std::vector<std::string> own;
  for (const std::string& word : words) {
    if (word.find(' ') == std::string::npos) {
      common += " " + word;
    } else {
      own.push_back(word);
    }
  }
  if (own.empty()) return combinations(op + common);
  std::vector<Case> cases;
  for (const std::string& word : own) {
    RIDGE_TRY(more, combinations(op + " " + word + common));
    cases.insert(cases.end(), more.begin(), more.end());
  }
  if (cases.size() > kMaxCases) return invalid("{} words describe more than {} cases", words.size(), kMaxCases);
  return cases;
}

}  // namespace ridge::record
