#include "campaign/skew.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ridge::campaign {

bool is_grouped(const std::string& op) {
  return op.find("grouped") != std::string::npos || op.find("moe") != std::string::npos;
}

Load load_of(const record::Case& one) {
  const std::string text = one.get("tokens");
  Load load;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t count = 0;
    const auto [next, error] = std::from_chars(at, end, count);
    if (error != std::errc() || count < 0 || (next < end && *next != '/')) return {};
    load.tokens.push_back(count);
    at = next < end ? next + 1 : next;
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
