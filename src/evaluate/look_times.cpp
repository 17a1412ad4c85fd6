#include "evaluate/look_times.h"

#include <algorithm>
#include <iterator>

#include "stats/summary.h"

namespace ridge::evaluate {
namespace {

constexpr double kNoTime = 2e-8;  // seconds; a call that shows no more was over before what is taken off it

bool is_known(double latency) { return latency > kNoTime; }

}  // namespace

std::optional<double> known_median(const std::vector<double>& calls) {
  std::vector<double> known;
  std::ranges::copy_if(calls, std::back_inserter(known), is_known);
  return known.empty() ? std::nullopt : std::optional(stats::median(known));
}

void LookTimes::add(double latency, std::optional<double> incumbent) {
  all_.push_back(latency);
  if (!incumbent || !is_known(latency) || !is_known(*incumbent)) return;
  own_.push_back(latency);
  beside_.push_back(*incumbent);
}

std::optional<double> LookTimes::latency(const std::vector<double>& of_incumbent) const {
  const std::optional<double> incumbent = known_median(of_incumbent);
  if (!own_.empty() && incumbent) return std::ranges::min(own_) / std::ranges::min(beside_) * *incumbent;
  return known_median(all_);
}

}  // namespace ridge::evaluate
