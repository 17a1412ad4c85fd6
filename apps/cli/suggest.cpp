#include "suggest.h"

#include <algorithm>
#include <utility>

namespace ridge::cli {
namespace {

constexpr std::size_t kMostNames = 3;

// Optimal string alignment: Levenshtein's distance with swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::vector<std::string> close_names(std::string_view typed, const std::vector<std::string>& known) {
  const std::size_t limit = std::max<std::size_t>(1, typed.size() / 3);
  std::vector<std::pair<std::size_t, std::string>> close;
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(typed, name);
    const bool abbreviates = typed.size() >= 3 && name.starts_with(typed);
    if (distance <= limit || abbreviates) close.emplace_back(std::min(distance, abbreviates ? limit : distance), name);
  }
  std::stable_sort(close.begin(), close.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (auto& [distance, name] : close) {
    if (names.size() < kMostNames) names.push_back(std::move(name));
  }
  return names;
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known) {
  std::string text;
  const std::vector<std::string> names = close_names(typed, known);
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "did you mean " : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text.empty() ? text : text + "?";
}

}  // namespace ridge::cli
