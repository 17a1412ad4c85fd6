#include "stats/session.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "stats/summary.h"

namespace ridge::stats {

Result<double> quad_log_ratio(std::string_view order, std::span<const std::vector<double>> blocks) {
  if (order != "ABBA" && order != "BAAB") return invalid("quad order '{}' is neither ABBA nor BAAB", order);
  if (blocks.size() != 4) return invalid("a quad has four blocks, this one has {}", blocks.size());
  double sum = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    for (const double seconds : blocks[i]) {
      if (!(seconds > 0) || !std::isfinite(seconds)) return invalid("block {} holds a time of {} s", i + 1, seconds);
    }
    if (blocks[i].empty()) return invalid("block {} of the quad holds no launches", i + 1);
    sum += (order[i] == 'A' ? 1 : -1) * std::log(median(blocks[i]));
  }
  return sum / 2;
}

Result<SessionStatistic> session_statistic(std::span<const ShapeRatios> shapes, QuadEstimator estimator) {
  if (shapes.empty()) return invalid("a session without shapes has no statistic");
  SessionStatistic result;
  double weights = 0;
  for (const ShapeRatios& shape : shapes) {
    if (shape.log_ratios.empty()) return invalid("shape {} has no quads", shape.label);
    if (!(shape.weight >= 0) || !std::isfinite(shape.weight)) {
      return invalid("shape {} has the weight {}", shape.label, shape.weight);
    }
    const double ratio =
        estimator == QuadEstimator::kMedian ? median(shape.log_ratios) : hodges_lehmann(shape.log_ratios);
    if (!std::isfinite(ratio)) return invalid("shape {} has a log ratio that is not finite", shape.label);
    result.per_shape.push_back(ratio);
    result.suite += shape.weight * ratio;
    weights += shape.weight;
  }
  if (!(weights > 0)) return invalid("all {} shapes have the weight zero", shapes.size());
  result.suite /= weights;
  return result;
}

std::vector<GuardLimit> guard_limits(double clock_gap, double steal_fraction, double foreign_load) {
  return {{"clock_gap", 0, clock_gap},
          {"steal_fraction", 0, steal_fraction},
          {"foreign_load", 0, foreign_load},
          {"throttle", 0, 0},
          {"missing_samples", 0, 0}};
}

std::vector<GuardLimit> GuardRule::void_limits() const {
  if (voids_disturbed) return guard_limits(max_clock_gap, max_steal, max_foreign_load);
  return {{"throttle", 0, 0}, {"missing_samples", 0, 0}};
}

double GuardRule::free_clock_gap() const {
  return std::min(std::max(max_clock_gap, usual_clock_gap), std::log1p(min_effect));
}

double GuardRule::slack(const std::map<std::string, double>& guards) const {
  const auto found = guards.find("clock_gap");
  if (voids_disturbed || found == guards.end()) return 0;
  const double gap = found->second;
  if (gap <= free_clock_gap()) return 0;
  // |ln(a / b)| for |a / b - 1| = gap is largest where a is the smaller one.
  return gap < 1 ? -std::log1p(-gap) : std::numeric_limits<double>::infinity();
}

double usual_clock_gap(std::span<const double> gaps) {
  constexpr double kUsual = 0.9;
  return gaps.empty() ? 0 : quantile(gaps, kUsual);
}

std::optional<std::string> void_reason(const std::map<std::string, double>& guards,
                                       std::span<const GuardLimit> limits) {
  for (const GuardLimit& limit : limits) {
    const auto found = guards.find(limit.name);
    if (found == guards.end()) continue;
    const double value = found->second;
    if (value >= limit.low && value <= limit.high) continue;
    return fmt::format("{} = {:.4g} is outside {:.4g}..{:.4g}", limit.name, value, limit.low, limit.high);
  }
  return std::nullopt;
}

bool too_many_voids(int voided, int max_sessions, double max_fraction) {
  return voided > static_cast<int>(std::floor(max_fraction * max_sessions + 1e-9));
}

}  // namespace ridge::stats
