#include "record/group_load.h"

#include <cmath>

namespace ridge::record {
namespace {

// The share of the first groups, from 0 to 1.
double share_of_first(GroupLoad load, std::int64_t count, std::int64_t groups) {
  const auto first = static_cast<double>(count), all = static_cast<double>(groups);
  const auto cubes = [](double n) { return n * n * (n - 1) * (n - 1) / 4; };  // of 0 .. n - 1
  if (groups == 1 || load == GroupLoad::kUniform) return first / all;
  if (load == GroupLoad::kSkewed) return cubes(first) / cubes(all);
  return count == 0 ? 0 : 0.5 + 0.5 * (first - 1) / (all - 1);
}

}  // namespace

std::vector<std::int64_t> rows_of_groups(GroupLoad load, std::int64_t rows, std::int64_t groups) {
  std::vector<std::int64_t> counts;
  if (load == GroupLoad::kAny) return counts;
  std::int64_t before = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    const auto end =
        g + 1 == groups
            ? rows
            : static_cast<std::int64_t>(std::llround(share_of_first(load, g + 1, groups) * static_cast<double>(rows)));
    counts.push_back(end - before);
    before = end;
  }
  return counts;
}

}  // namespace ridge::record
