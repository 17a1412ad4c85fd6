#include "campaign/standing.h"

#include <fmt/format.h>

#include <cmath>

#include "campaign/level.h"
#include "campaign/state.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

// One launch of every shape in each session, both arms together: in the baseline's sessions they are the same kernel.
std::vector<double> seconds_by_session(const record::Baseline& baseline) {
  std::vector<double> values;
  for (const record::Session& session : baseline.evaluation.sessions) {
    if (session.voided) continue;
    double sum = 0;
    for (const record::ShapeSamples& shape : session.shapes) {
      std::vector<double> both = launches({&session, 1}, shape.label, Arm::kIncumbent);
      const std::vector<double> other = launches({&session, 1}, shape.label, Arm::kCandidate);
      both.insert(both.end(), other.begin(), other.end());
      sum += stats::median(both);
    }
    if (std::isfinite(sum)) values.push_back(sum);
  }
  return values;
}

std::string baseline_text(const record::Baseline& baseline) {
  const std::vector<double> values = seconds_by_session(baseline);
  if (values.empty()) {
    double sum = 0;
    for (const record::RooflinePoint& point : baseline.evaluation.roofline) sum += point.latency;
    return fmt::format("Baseline: {:.4g} ms for one launch of every shape, from one short look", 1e3 * sum);
  }
  const stats::Interval interval = stats::sign_interval(values, kConfidence);
  return fmt::format(
      "Baseline: {:.4g} ms for one launch of every shape ({:.0f} % interval {:.4g} to {:.4g}, {} sessions)",
      1e3 * stats::median(values), 100 * interval.confidence, 1e3 * interval.low, 1e3 * interval.high, values.size());
}

}  // namespace

std::optional<Provisional> provisional_best(const State& state) {
  std::optional<Provisional> best;
  for (const Round& round : state.rounds) {
    const bool undecided = round.without_verdict() || !round.decision;
    if (!undecided || !round.last().evaluated || round.incumbent_round != state.incumbent.round) continue;
    const record::Evaluated& evaluated = *round.last().evaluated;
    std::vector<double> ratios;
    for (const record::Session& session : evaluated.evaluation.sessions) {
      const Result<SessionRatios> one = session_ratios(session, labels_of_level(state, evaluated.level));
      if (one && !session.voided) ratios.push_back(one->suite);
    }
    const double ratio = ratios.empty() ? 0 : std::exp(stats::median(ratios));
    if (!(ratio > 1 + state.spec().protocol.min_effect) || (best && best->ratio >= ratio)) continue;
    best = Provisional{round.number, round.last().proposal.hypothesis.title, ratio,
                       static_cast<std::int64_t>(ratios.size())};
  }
  return best;
}

std::vector<std::string> standing(const State& state) {
  std::vector<std::string> lines;
  if (!state.baseline) return lines;
  lines.push_back(baseline_text(*state.baseline));
  if (state.calibration.sessions > 1) {
    lines.push_back(fmt::format("Smallest gain that about 15 sessions decide on this machine as it was: {:.2g} %",
                                100 * state.calibration.detectable));
  }
  if (const std::optional<Provisional> best = provisional_best(state)) {
    lines.push_back(
        fmt::format("Provisional best, unverified: round {} ({}), about {:.2f}x the incumbent in {} session{}; it was "
                    "not accepted",
                    best->round, best->title, best->ratio, best->sessions, best->sessions == 1 ? "" : "s"));
  }
  return lines;
}

}  // namespace ridge::campaign
