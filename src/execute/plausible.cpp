#include "execute/plausible.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "stats/summary.h"

namespace ridge::execute {
namespace {

constexpr std::size_t kFewest = 6;  // fewer do not show how much walls differ

struct Summary {
  double wall = 0, claimed = 0, spread = 0;
};

Summary summary_of(std::span<const TimedProcess> processes) {
  std::vector<double> walls, claims;
  for (const TimedProcess& one : processes) {
    walls.push_back(one.wall);
    claims.push_back(one.claimed);
  }
  const auto [least, most] = std::minmax_element(walls.begin(), walls.end());
  return {stats::median(walls), stats::median(claims), *most - *least};
}

}  // namespace

std::string implausible_saving(double launches, std::span<const TimedProcess> incumbent,
                               std::span<const TimedProcess> candidate) {
  if (launches <= 0 || std::min(incumbent.size(), candidate.size()) < kFewest) return {};
  const Summary before = summary_of(incumbent), now = summary_of(candidate);
  const double saved = launches * (before.claimed - now.claimed), spread = before.spread + now.spread;
  if (saved / 2 <= before.wall - now.wall + spread) return {};
  return fmt::format(
      "its tables claim to save {} of every process, whose wall time fell by {} (and differs by {} anyway)",
      format_duration(saved), format_duration(std::max(before.wall - now.wall, 0.0)), format_duration(spread));
}

}  // namespace ridge::execute
