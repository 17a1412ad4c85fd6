#include "report/ratios.h"

#include <algorithm>
#include <cmath>

#include "stats/session.h"
#include "stats/summary.h"

namespace ridge::report {
namespace {

std::int64_t count_launches(const record::Session& session) {
  std::size_t launches = 0;
  for (const auto& shape : session.shapes) {
    for (const auto& quad : shape.quads) {
      for (const auto& block : quad.blocks) launches += block.size();
    }
  }
  return static_cast<std::int64_t>(launches);
}

}  // namespace

double geomean_of_usable(std::span<const double> values) {
  std::vector<double> usable = finite_only(values);
  std::erase_if(usable, [](double value) { return value <= 0; });
  return stats::geomean(usable);
}

std::vector<double> finite_only(std::span<const double> values) {
  std::vector<double> kept;
  std::copy_if(values.begin(), values.end(), std::back_inserter(kept), [](double v) { return std::isfinite(v); });
  return kept;
}

record::SessionRatios reduce(const record::Session& session) {
  record::SessionRatios ratios{session.index, session.role, session.voided,          session.void_reason,
                               kNan,          {},           count_launches(session), session.guards};
  double sum = 0;
  const record::ColumnSamples* const metric = record::metric_column(session);
  const bool higher = metric != nullptr && metric->holds == record::ColumnSamples::Holds::kHigher;
  for (const auto& shape : metric != nullptr ? metric->shapes : session.shapes) {
    std::vector<double> quads;
    for (const auto& quad : shape.quads) {
      const Result<double> ratio = stats::quad_log_ratio(quad.order, quad.blocks);
      quads.push_back(!ratio ? kNan : higher ? -*ratio : *ratio);
    }
    const bool usable = !quads.empty() && finite_only(quads).size() == quads.size();
    const double value = usable ? stats::hodges_lehmann(quads) : kNan;
    ratios.shapes[shape.label] = value;
    sum += value;
  }
  if (!session.shapes.empty()) ratios.suite = sum / static_cast<double>(session.shapes.size());
  return ratios;
}

double arm_latency(std::span<const record::Session> sessions, std::string_view label, record::Arm arm) {
  return stats::median(record::launches(sessions, label, arm));
}

std::optional<double> metric_value(std::span<const record::Session> sessions, std::string_view label, record::Arm arm) {
  const record::ColumnSamples* const metric = sessions.empty() ? nullptr : record::metric_column(sessions.front());
  if (metric == nullptr) return std::nullopt;
  return stats::median(record::column_values(sessions, metric->name, label, arm));
}

std::vector<double> suite_log_ratios(const record::ReportTrial& trial, std::string_view role) {
  std::vector<double> values;
  for (const auto& session : trial.sessions) {
    if (!session.voided && session.role == role && std::isfinite(session.suite)) values.push_back(session.suite);
  }
  return values;
}

}  // namespace ridge::report
