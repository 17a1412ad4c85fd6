#include "journal/samples.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "stats/decide.h"
#include "stats/noise.h"
#include "stats/session.h"
#include "stats/summary.h"

namespace ridge::journal {
namespace {

using record::Session;
using record::ShapeSamples;

Result<std::vector<double>> quad_ratios(const ShapeSamples& shape) {
  std::vector<double> ratios;
  for (const record::Quad& quad : shape.quads) {
    Result<double> ratio = stats::quad_log_ratio(quad.order, quad.blocks);
    if (!ratio) return in_context(shape.label, ratio.error());
    ratios.push_back(*ratio);
  }
  return ratios;
}

// `samples` of `session`; `sign` turns a column in which more is better into one in which less is.
Result<stats::SessionStatistic> statistic_of(const Session& session, const std::vector<ShapeSamples>& samples,
                                             const std::vector<std::string>& labels, double sign) {
  std::map<std::string, const ShapeSamples*> shapes;
  for (const ShapeSamples& shape : samples) {
    if (!shapes.emplace(shape.label, &shape).second) {
      return invalid("session {} has shape \"{}\" twice", session.index, shape.label);
    }
  }
  std::vector<stats::ShapeRatios> ratios;
  for (const std::string& label : labels) {
    const auto found = shapes.find(label);
    if (found == shapes.end()) return invalid("session {} lacks shape \"{}\"", session.index, label);
    Result<std::vector<double>> quads = quad_ratios(*found->second);
    if (!quads) return in_context(fmt::format("session {}", session.index), quads.error());
    for (double& quad : *quads) quad *= sign;
    ratios.push_back({label, 1.0, std::move(*quads)});
    shapes.erase(found);
  }
  if (!shapes.empty()) {
    return invalid("session {} has shape \"{}\", which is not a target", session.index, shapes.begin()->first);
  }
  Result<stats::SessionStatistic> statistic = stats::session_statistic(ratios);
  if (!statistic) return in_context(fmt::format("session {}", session.index), statistic.error());
  return statistic;
}

std::string direction_name(const std::string& label, const record::ColumnSamples& column) {
  return fmt::format("{}, {}", label, column.name);
}

Status add_directions(const Session& session, SessionRatios& ratios) {
  for (const record::ColumnSamples& column : session.columns) {
    if (column.holds != record::ColumnSamples::Holds::kSeconds) continue;
    std::vector<std::string> labels;
    for (const ShapeSamples& shape : column.shapes) labels.push_back(shape.label);
    RIDGE_TRY(statistic, statistic_of(session, column.shapes, labels, 1));
    for (std::size_t i = 0; i < labels.size(); ++i) {
      ratios.directions.push_back(direction_name(labels[i], column));
      ratios.per_direction.push_back(statistic.per_shape[i]);
    }
  }
  return ok_status();
}

std::optional<double> median_of(const std::vector<Session>& sessions, const std::string& column,
                                const std::string& label) {
  const std::vector<double> values = record::column_values(sessions, column, label, Arm::kCandidate);
  return values.empty() ? std::nullopt : std::optional(stats::median(values));
}

// Ends of the order statistics' interval, each moved outwards by what the sessions' slacks allow.
stats::Interval fixed_interval(const std::vector<double>& log_ratios, const std::vector<double>& slacks) {
  std::vector<double> lower = log_ratios, upper = log_ratios;
  for (std::size_t i = 0; i < std::min(lower.size(), slacks.size()); ++i) {
    lower[i] -= slacks[i];
    upper[i] += slacks[i];
  }
  const stats::Interval low = stats::sign_interval(lower, kConfidence);
  return {low.low, stats::sign_interval(upper, kConfidence).high, low.confidence};
}

record::Effect effect_of(const std::string& label, const std::vector<double>& log_ratios,
                         const std::vector<double>& slacks, Stopping stopping) {
  const stats::Interval interval = stopping == Stopping::kByTest
                                       ? stats::betting_interval(log_ratios, kConfidence, slacks)
                                       : fixed_interval(log_ratios, slacks);
  return {label,
          std::exp(stats::hodges_lehmann(log_ratios)),
          std::exp(interval.low),
          std::exp(interval.high),
          interval.confidence,
          static_cast<std::int64_t>(log_ratios.size())};
}

}  // namespace

std::vector<const Session*> valid_sessions(const std::vector<Session>& sessions, std::string_view role) {
  std::vector<const Session*> valid;
  for (const Session& session : sessions) {
    if (session.role == role && !session.voided) valid.push_back(&session);
  }
  return valid;
}

bool all_void(const std::vector<record::Session>& sessions) {
  return !sessions.empty() &&
         std::all_of(sessions.begin(), sessions.end(), [](const record::Session& one) { return one.voided; });
}

std::int64_t confirmation_count(const std::vector<Session>& sessions) {
  return static_cast<std::int64_t>(valid_sessions(sessions, "confirm").size());
}

std::vector<record::RooflinePoint> measured_roofline(const std::vector<record::RooflinePoint>& bounds,
                                                     const std::vector<Session>& sessions) {
  std::vector<record::RooflinePoint> points;
  for (record::RooflinePoint point : bounds) {
    const std::vector<double> values = launches(sessions, point.label, Arm::kCandidate);
    if (values.empty()) continue;
    point.latency = stats::median(values);
    point.fraction = point.bound_time / point.latency;
    for (record::DirectionPoint& direction : point.directions) {
      direction.latency = median_of(sessions, direction.name, point.label).value_or(point.latency);
    }
    if (!sessions.empty()) {
      if (const record::ColumnSamples* metric = record::metric_column(sessions.front()))
        point.value = median_of(sessions, metric->name, point.label);
    }
    points.push_back(std::move(point));
  }
  return points;
}

double launch_seconds(const std::vector<record::RooflinePoint>& points) {
  double sum = 0.0;
  for (const record::RooflinePoint& point : points) sum += point.latency;
  return sum;
}

bool fair(const record::Calibration& calibration) {
  return calibration.sessions > 0 && calibration.sign_p_value > stats::kBiasLevel;
}

Result<SessionRatios> session_ratios(const Session& session, const std::vector<std::string>& labels) {
  RIDGE_TRY(statistic, statistic_of(session, session.shapes, labels, 1));
  if (const record::ColumnSamples* metric = record::metric_column(session)) {
    const bool higher = metric->holds == record::ColumnSamples::Holds::kHigher;
    RIDGE_TRY(own, statistic_of(session, metric->shapes, labels, higher ? -1 : 1));
    statistic = std::move(own);
  }
  SessionRatios ratios{statistic.suite, std::move(statistic.per_shape), {}, {}};
  RIDGE_CHECK_OK(add_directions(session, ratios));
  return ratios;
}

std::vector<std::string> directions_of(const Session& session, const std::vector<std::string>& labels) {
  std::vector<std::string> directions;
  for (const record::ColumnSamples& column : session.columns) {
    if (column.holds != record::ColumnSamples::Holds::kSeconds) continue;
    for (const ShapeSamples& shape : column.shapes) {
      if (std::find(labels.begin(), labels.end(), shape.label) != labels.end())
        directions.push_back(direction_name(shape.label, column));
    }
  }
  return directions;
}

Result<RatioTable> ratio_table(const std::vector<const Session*>& sessions, const std::vector<std::string>& labels,
                               const stats::GuardRule* guards) {
  RatioTable table;
  table.per_shape.resize(labels.size());
  for (const Session* session : sessions) {
    RIDGE_TRY(ratios, session_ratios(*session, labels));
    if (table.suite.empty()) {
      table.directions = ratios.directions;
      table.per_direction.resize(ratios.directions.size());
    }
    if (ratios.directions != table.directions)
      return invalid("session {} has other directions than session {}", session->index, sessions.front()->index);
    table.suite.push_back(ratios.suite);
    if (guards != nullptr) table.slacks.push_back(guards->slack(session->guards));
    for (std::size_t i = 0; i < labels.size(); ++i) table.per_shape[i].push_back(ratios.per_shape[i]);
    for (std::size_t i = 0; i < ratios.directions.size(); ++i)
      table.per_direction[i].push_back(ratios.per_direction[i]);
  }
  return table;
}

std::vector<record::Effect> effects_of(const RatioTable& table, const std::vector<std::string>& labels,
                                       Stopping stopping) {
  std::vector<record::Effect> effects;
  if (table.suite.empty()) return effects;
  effects.push_back(effect_of("suite", table.suite, table.slacks, stopping));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    effects.push_back(effect_of(labels[i], table.per_shape[i], table.slacks, stopping));
  }
  return effects;
}

std::vector<record::Effect> direction_effects(const RatioTable& table, Stopping stopping) {
  std::vector<record::Effect> effects;
  for (std::size_t i = 0; i < table.directions.size(); ++i)
    effects.push_back(effect_of(table.directions[i], table.per_direction[i], table.slacks, stopping));
  return effects;
}

double least_or_nan(const std::vector<double>& values) {
  const bool usable =
      !values.empty() && std::none_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
  return usable ? *std::min_element(values.begin(), values.end()) : std::nan("");
}

std::vector<SignalToNoise> worst_noise(const std::vector<Session>& sessions) {
  std::vector<SignalToNoise> found;
  if (sessions.empty()) return found;
  for (const record::ColumnSamples& column : sessions.front().columns) {
    if (column.holds != record::ColumnSamples::Holds::kDecibel) continue;
    for (const ShapeSamples& shape : column.shapes) {
      found.push_back({column.name, shape.label,
                       least_or_nan(record::column_values(sessions, column.name, shape.label, Arm::kCandidate))});
    }
  }
  return found;
}

std::vector<std::string> labels_of(const std::vector<record::Case>& cases) {
  std::vector<std::string> labels;
  for (const record::Case& one : cases) labels.push_back(one.label());
  return labels;
}

}  // namespace ridge::journal
