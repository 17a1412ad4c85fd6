#include "journal/samples.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

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

Result<std::map<std::string, const ShapeSamples*>> by_label(const Session& session) {
  std::map<std::string, const ShapeSamples*> shapes;
  for (const ShapeSamples& shape : session.shapes) {
    if (!shapes.emplace(shape.label, &shape).second) {
      return invalid("session {} has shape \"{}\" twice", session.index, shape.label);
    }
  }
  return shapes;
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
  RIDGE_TRY(shapes, by_label(session));
  std::vector<stats::ShapeRatios> ratios;
  for (const std::string& label : labels) {
    const auto found = shapes.find(label);
    if (found == shapes.end()) return invalid("session {} lacks shape \"{}\"", session.index, label);
    Result<std::vector<double>> quads = quad_ratios(*found->second);
    if (!quads) return in_context(fmt::format("session {}", session.index), quads.error());
    ratios.push_back({label, 1.0, std::move(*quads)});
    shapes.erase(found);
  }
  if (!shapes.empty()) {
    return invalid("session {} has shape \"{}\", which is not a target", session.index, shapes.begin()->first);
  }
  Result<stats::SessionStatistic> statistic = stats::session_statistic(ratios);
  if (!statistic) return in_context(fmt::format("session {}", session.index), statistic.error());
  return SessionRatios{statistic->suite, std::move(statistic->per_shape)};
}

Result<RatioTable> ratio_table(const std::vector<const Session*>& sessions, const std::vector<std::string>& labels,
                               const stats::GuardRule* guards) {
  RatioTable table;
  table.per_shape.resize(labels.size());
  for (const Session* session : sessions) {
    RIDGE_TRY(ratios, session_ratios(*session, labels));
    table.suite.push_back(ratios.suite);
    if (guards != nullptr) table.slacks.push_back(guards->slack(session->guards));
    for (std::size_t i = 0; i < labels.size(); ++i) table.per_shape[i].push_back(ratios.per_shape[i]);
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

std::vector<std::string> labels_of(const std::vector<record::Case>& cases) {
  std::vector<std::string> labels;
  for (const record::Case& one : cases) labels.push_back(one.label());
  return labels;
}

}  // namespace ridge::journal
