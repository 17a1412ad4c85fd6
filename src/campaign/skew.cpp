#include "campaign/skew.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "record/group_load.h"

namespace ridge::campaign {

bool is_grouped(const std::string& op, std::span<const record::Case> cases) {
  return std::ranges::any_of(cases, [](const record::Case& one) { return !one.get(record::kLoadParam).empty(); }) ||
         op.find("grouped") != std::string::npos || op.find("moe") != std::string::npos;
}

namespace {

constexpr std::int64_t kMostGroups = 1 << 16;

// A whole number at the beginning of `text`, which it is taken off.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(next - text.data()));
  return number;
}

// "128/0/64", or "128-0-64x2"; nothing when it is no such list.
std::vector<std::int64_t> tokens_of(std::string_view text, char separator) {
  std::vector<std::int64_t> tokens;
  while (!text.empty()) {
    const std::optional<std::int64_t> count = take_number(text);
    std::optional<std::int64_t> times = 1;
    if (separator == '-' && text.starts_with('x')) {
      text.remove_prefix(1);
      times = take_number(text);
    }
    if (!count || !times || *times > kMostGroups || (!text.empty() && text.front() != separator)) return {};
    tokens.insert(tokens.end(), static_cast<std::size_t>(*times), *count);
    if (!text.empty()) text.remove_prefix(1);
  }
  return tokens;
}

}  // namespace

Load load_of(const record::Case& one) {
  const std::string tokens = one.get("tokens"), label = one.get("label");
  const std::size_t colon = label.find(':');
  Load load;
  if (const auto spread = record::value_of<record::GroupLoad>(one.get(record::kLoadParam))) {
    const Result<std::int64_t> rows = one.integer("rows"), groups = one.integer("groups");
    if (rows && groups) load.tokens = record::rows_of_groups(*spread, *rows, *groups);
  } else if (!tokens.empty()) {
    load.tokens = tokens_of(tokens, '/');
  } else if (colon != std::string::npos) {
    load.tokens = tokens_of(std::string_view(label).substr(colon + 1), '-');
  }
  double sum = 0, squares = 0;
  for (const std::int64_t count : load.tokens) sum += static_cast<double>(count);
  if (sum <= 0) return {};
  const double mean = sum / static_cast<double>(load.tokens.size());
  for (const std::int64_t count : load.tokens) {
    squares += (static_cast<double>(count) - mean) * (static_cast<double>(count) - mean);
    load.empty += count == 0 ? 1 : 0;
    load.largest_share = std::max(load.largest_share, static_cast<double>(count) / sum);
  }
  load.variation = std::sqrt(squares / static_cast<double>(load.tokens.size())) / mean;
  return load;
}

}  // namespace ridge::campaign
