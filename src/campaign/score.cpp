#include "campaign/score.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

constexpr double kSmall = 0.1;  // below it, decimals would leave three digits or fewer
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::string signed_percent(double now, double before) {
  return std::isfinite(now) && std::isfinite(before) ? fmt::format("{:+.3f}%", percent_change(now, before))
                                                     : std::string("—");
}

}  // namespace

StepScore step_score(const std::vector<record::RooflinePoint>& points, Rate rate) {
  std::vector<double> forward, backward, step;
  for (const record::RooflinePoint& point : points) {
    record::Cost work;
    double seconds = 0;
    for (const record::DirectionPoint& one : point.directions) {
      (one.name == "backward" ? backward : forward).push_back(rate.of(one.cost, one.latency));
      work.flop += one.cost.flop;
      work.bytes += one.cost.bytes;
      seconds += one.latency;
    }
    if (point.directions.empty()) forward.push_back(rate.of(point.cost, point.latency));
    step.push_back(point.directions.empty() ? forward.back() : rate.of(work, seconds));
  }
  const auto peak = [](const std::vector<double>& values) {
    return values.empty() ? kNone : *std::max_element(values.begin(), values.end());
  };
  // A mean over some of the shapes only would stand beside one over all of them.
  const bool both = backward.size() == points.size();
  return {stats::geomean(forward), both ? stats::geomean(backward) : kNone, stats::geomean(step), peak(forward),
          both ? peak(backward) : kNone};
}

double step_geomean(const StepScore& score) {
  return std::isfinite(score.backward) ? std::sqrt(score.forward * score.backward) : score.forward;
}

double metric_value(const record::Metric& metric, const record::RooflinePoint& point) {
  switch (metric.quantity) {
    case record::Quantity::kFlops: return point.cost.flop / point.latency / 1e12;
    case record::Quantity::kBytes: return point.cost.bytes / point.latency / 1e9;
    case record::Quantity::kSeconds: return point.latency * 1e6;
    case record::Quantity::kColumn: return point.value.value_or(kNone);
  }
  return kNone;
}

double metric_value(const record::Metric& metric, const std::vector<record::RooflinePoint>& points) {
  std::vector<double> values;
  for (const record::RooflinePoint& point : points) values.push_back(metric_value(metric, point));
  return stats::geomean(values);
}

std::string title_of(const record::Metric& metric) {
  return metric.quantity == record::Quantity::kColumn ? metric.column : metric.name + " " + metric.unit();
}

std::string score_text(double value) {
  if (!std::isfinite(value) || value <= 0) return "-";
  return value < kSmall ? fmt::format("{:.4g}", value) : fmt::format("{:.3f}", value);
}

std::string rate_text(double value) {
  return value < kSmall ? fmt::format("{:.4g}", value) : fmt::format("{:.4f}", value);
}

double percent_change(double now, double before) { return 100.0 * (now / before - 1.0); }

std::string versus_baseline(const StepScore& now, const StepScore& baseline) {
  return fmt::format("step {}, fwd {}, bwd {}", signed_percent(now.step, baseline.step),
                     signed_percent(now.forward, baseline.forward), signed_percent(now.backward, baseline.backward));
}

double weight_cache_bound(double skipped_seconds, double step_seconds) {
  if (!(step_seconds > 0.0) || !(skipped_seconds >= 0.0)) return kNone;
  return skipped_seconds / step_seconds;
}

double amdahl_speedup(double share, double factor) { return 1.0 / (1.0 - share * (1.0 - 1.0 / factor)); }

}  // namespace ridge::campaign
