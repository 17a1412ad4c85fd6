#include "campaign/gates.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "campaign/plausible.h"
#include "campaign/score.h"
#include "campaign/transfer.h"
#include "stats/bounds.h"
#include "stats/noninferiority.h"
#include "stats/session.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

using record::GateOutcome;
using record::GateResult;
using record::Outcome;

// A median may undercut the measured ceiling by this much: the ceiling is itself a measurement.
constexpr double kFloorTolerance = 0.05;
// Of a ceiling that was measured while others used the machine: a neighbour on the same core leaves it half of the
// rate.
constexpr double kDisturbedTolerance = 0.5;

// The timing engine whose objects are Ridgeline's to build.
const std::string kRebuilt = record::Evaluation{}.timing;

GateResult pass(std::string detail) { return {{}, GateOutcome::kPass, std::move(detail)}; }
GateResult fail(std::string detail) { return {{}, GateOutcome::kFail, std::move(detail)}; }
GateResult inconclusive(std::string detail) { return {{}, GateOutcome::kInconclusive, std::move(detail)}; }

GateResult check_budget(const GateInput& in) {
  const std::int64_t allowed = in.protocol.max_decisions;
  if (allowed < 1 || allowed > stats::kMostDecisions) {
    return fail(fmt::format("an error budget of {} decisions: it is for 1 to {}", allowed, stats::kMostDecisions));
  }
  if (in.decisions_used >= allowed) {
    return fail(fmt::format("decision {} is refused: the error budget covers {}", in.decisions_used + 1, allowed));
  }
  return pass(fmt::format("decision {} of {}", in.decisions_used + 1, allowed));
}

GateResult check_level(const GateInput& in) {
  if (in.level == "full") return pass("full: all target shapes");
  return inconclusive("only the quick look was taken: it can reject and not accept");
}

GateResult check_build(const GateInput& in) {
  const record::Evaluation& e = in.evaluation;
  if (e.outcome == Outcome::kHarnessFault) return inconclusive("no evaluation: " + e.detail);
  if (e.outcome == Outcome::kCompile) return fail("it does not compile: " + e.detail);
  if (e.build.artifact.empty()) return fail("no built object was recorded");
  if (e.candidate != in.candidate_id || (!e.build.candidate.empty() && e.build.candidate != in.candidate_id)) {
    return fail(fmt::format("the evaluation is of candidate {}, not of {}", e.candidate.substr(0, 12),
                            in.candidate_id.substr(0, 12)));
  }
  if (e.incumbent != in.incumbent_id) {
    return fail(fmt::format("it was compared with {}, not with the incumbent {}", e.incumbent.substr(0, 12),
                            in.incumbent_id.substr(0, 12)));
  }
  return pass("object " + e.build.artifact.substr(0, 12));
}

// A changed candidate must be a changed object; otherwise a stale build was measured, or the change does nothing.
GateResult check_artifact(const GateInput& in) {
  const bool same_candidate = in.candidate_id == in.incumbent_id;
  const bool same_object = in.evaluation.build.artifact == in.incumbent_artifact;
  if (same_candidate) return fail("nothing was changed");
  if (same_object) return fail("the built object is the incumbent's: the change has no effect on the code");
  return pass("sources and built object both changed");
}

// Every signal-to-noise ratio of a project's table, the worst of all processes: at the floor or above, and not below
// the baseline's worst by more than the margin. Empty: all are.
std::string noise_objection(const GateInput& in) {
  if (in.evaluation.sessions.empty()) return {};
  for (const SignalToNoise& limit : in.noise.baseline) {
    const std::string place = fmt::format("{}: {}", limit.label, limit.column);
    const double worst =
        least_or_nan(column_values(in.evaluation.sessions, limit.column, limit.label, Arm::kCandidate));
    if (std::isnan(worst)) return place + " is missing where the baseline has one";
    if (worst < in.noise.floor) {
      return fmt::format("{} is {:.4g} dB, below the floor of {:.4g} dB", place, worst, in.noise.floor);
    }
    if (std::isfinite(limit.worst) && worst < limit.worst - in.noise.margin) {
      return fmt::format("{} is {:.4g} dB, more than {:.3g} dB below the baseline's {:.4g} dB", place, worst,
                         in.noise.margin, limit.worst);
    }
    if (limit.worst == INFINITY && std::isfinite(worst) && in.noise.floor <= 0) {
      return fmt::format("{} is {:.4g} dB where the baseline is exact; benchmark.min_snr_db may say what is enough",
                         place, worst);
    }
  }
  return {};
}

GateResult check_correctness(const GateInput& in) {
  const record::Evaluation& e = in.evaluation;
  const Outcome o = e.outcome;
  if (o == Outcome::kWrong || o == Outcome::kCheat || o == Outcome::kCrash || o == Outcome::kHang ||
      o == Outcome::kOom) {
    return fail(fmt::format("{}: {}", record::name_of(o), e.detail));
  }
  if (e.checks.empty()) return inconclusive("nothing was checked");
  double worst = 0.0;
  for (const record::CheckRow& row : e.checks) {
    if (row.outcome != Outcome::kPass) {
      return fail(fmt::format("{}: {} {}", row.label, record::name_of(row.outcome), row.detail));
    }
    if (!(row.max_error_ratio <= 1.0)) {
      return fail(fmt::format("{}: error is {:.3g} times what is allowed", row.label, row.max_error_ratio));
    }
    worst = std::max(worst, row.max_error_ratio);
  }
  if (const std::string objection = noise_objection(in); !objection.empty()) return fail(objection);
  return pass(fmt::format("{} shapes, largest error {:.2g} of what is allowed", e.checks.size(), worst));
}

// The first direction of the baseline's table that a session lacks; empty: it has them all.
std::string missing_direction(const GateInput& in, const record::Session& session) {
  const std::vector<std::string> held = directions_of(session, in.labels);
  const auto lacks = [&](const std::string& one) { return std::find(held.begin(), held.end(), one) == held.end(); };
  const auto missing = std::find_if(in.directions.begin(), in.directions.end(), lacks);
  return missing == in.directions.end() ? std::string() : *missing;
}

// A session is decided on a column exactly when the primary metric is one, and on that one.
std::string metric_objection(const GateInput& in, const record::Session& session) {
  using Holds = record::ColumnSamples::Holds;
  const bool wanted = in.metric && in.metric->quantity == record::Quantity::kColumn;
  const record::ColumnSamples* const held = record::metric_column(session);
  if (held == nullptr) {
    return wanted ? fmt::format("session {} lacks the column \"{}\" of {}", session.index, in.metric->column,
                                in.metric->name)
                  : std::string();
  }
  const bool same = wanted && held->name == in.metric->column && (held->holds == Holds::kHigher) == in.metric->higher;
  if (same) return {};
  return fmt::format("session {} is measured by a column \"{}\", which is not the primary metric", session.index,
                     held->name);
}

// Dropping, renaming or repeating a shape must not help, nor leaving out a direction of a project's table.
GateResult check_labels(const GateInput& in) {
  const std::set<std::string> wanted(in.labels.begin(), in.labels.end());
  std::set<std::string> seen;
  for (const record::CheckRow& row : in.evaluation.checks) {
    if (!wanted.contains(row.label)) return fail(fmt::format("check row \"{}\" is not a target shape", row.label));
    if (!seen.insert(row.label).second) return fail(fmt::format("check row \"{}\" appears twice", row.label));
  }
  for (const std::string& label : wanted) {
    if (!seen.contains(label)) return fail(fmt::format("shape \"{}\" was not checked", label));
  }
  for (const record::Session& session : in.evaluation.sessions) {
    if (session.voided) continue;
    const Result<SessionRatios> ratios = session_ratios(session, in.labels);
    if (!ratios) return fail(ratios.error().message);
    if (std::string objection = metric_objection(in, session); !objection.empty()) return fail(std::move(objection));
    if (const std::string missing = missing_direction(in, session); !missing.empty()) {
      return fail(fmt::format("session {} lacks \"{}\", which the baseline's table has", session.index, missing));
    }
  }
  return pass(fmt::format("exactly the {} target shapes", wanted.size()));
}

// A session is void exactly when its recorded guards leave the limits of the decision rule; there is no choice in it.
std::string void_objection(const record::Session& session, const stats::GuardRule& guards) {
  const auto reason = stats::void_reason(session.guards, guards.void_limits());
  if (session.voided && !reason) return fmt::format("session {} is void, but its guards are not", session.index);
  if (!session.voided && reason) return fmt::format("session {} counts, but {}", session.index, *reason);
  return {};
}

// Every session of the test must be there: leaving out the bad ones would make any candidate win.
GateResult check_sessions(const GateInput& in) {
  const stats::GuardRule guards = guard_rule(in.protocol, in.calibration);
  std::set<std::int64_t> indices;
  std::int64_t voided = 0;
  for (const record::Session& session : in.evaluation.sessions) {
    if (!indices.insert(session.index).second) return fail(fmt::format("session {} appears twice", session.index));
    voided += session.voided ? 1 : 0;
    if (std::string objection = void_objection(session, guards); !objection.empty()) return fail(objection);
  }
  if (indices.empty()) return inconclusive("nothing was measured");
  if (const std::string why = session_objection(in.evaluation.sessions); !why.empty()) return fail(why);
  const std::int64_t span = *indices.rbegin() - *indices.begin() + 1;
  if (span != static_cast<std::int64_t>(indices.size())) {
    return fail(fmt::format("{} of {} sessions are missing", span - static_cast<std::int64_t>(indices.size()), span));
  }
  const double allowed = in.protocol.max_void_fraction;
  if (stats::too_many_voids(static_cast<int>(voided), sequential_rule(in.protocol).max_sessions, allowed)) {
    return inconclusive(fmt::format("{} sessions were void, at most {:.0f} % of {} may be: the machine is too busy",
                                    voided, allowed * 100, in.protocol.max_sessions));
  }
  return pass(fmt::format("{} sessions, {} void", indices.size(), voided));
}

GateResult check_verified(const GateInput& in) {
  if (in.evaluation.checks.empty()) return inconclusive("nothing was checked");
  std::int64_t calls = 0;
  for (const record::CheckRow& row : in.evaluation.checks) {
    const auto timed = static_cast<std::int64_t>(launches(in.evaluation.sessions, row.label, Arm::kCandidate).size());
    if (row.verified_calls < std::max<std::int64_t>(timed, 1)) {
      return fail(fmt::format("{}: {} calls were verified, {} were timed", row.label, row.verified_calls, timed));
    }
    calls += row.verified_calls;
  }
  return pass(fmt::format("{} calls verified on fresh inputs", calls));
}

GateResult check_effect(const GateInput& in) {
  if (in.evaluation.sessions.empty()) return inconclusive("nothing was measured");
  const double threshold = in.protocol.min_effect;
  // The last look counts: the first may have been a glance.
  if (const auto screens = valid_sessions(in.evaluation.sessions, "screen"); !screens.empty()) {
    const Result<SessionRatios> ratios = session_ratios(*screens.back(), in.labels);
    if (!ratios) return fail(ratios.error().message);
    if (stats::screened_out(ratios->suite, threshold)) {
      return fail(fmt::format("the screening session measured {:+.2f} %, less than half of the {:.2g} % to exceed",
                              100 * std::expm1(ratios->suite), 100 * threshold));
    }
  }
  const Result<RatioTable> table = confirmation_ratios(in);
  if (!table) return fail(table.error().message);
  if (table->suite.empty()) return inconclusive("no confirmation session was measured");
  const stats::SequentialResult test = stats::decide(table->suite, sequential_rule(in.protocol), table->slacks);
  if (test.verdict == stats::Verdict::kAccept) return pass(test.reason);
  if (test.verdict == stats::Verdict::kUndecided) return inconclusive(test.reason);
  // Sessions that contradict each other refute nothing: their estimate says faster, their number could not prove it.
  const double estimate = stats::hodges_lehmann(table->suite);
  const bool charges = in.protocol.decision_rule != record::Protocol::kVoiding;
  if (charges && estimate > std::log1p(threshold)) {
    return inconclusive(
        fmt::format("too noisy to tell: {:.3f}x in the middle, but {}", std::exp(estimate), test.reason));
  }
  return fail(test.reason);
}

// "This shape is not slower by the limit or more", for every shape and every direction of a project's table, with
// Holm's correction over all of them.
GateResult check_noninferiority(const GateInput& in) {
  const Result<RatioTable> table = confirmation_ratios(in);
  if (!table) return fail(table.error().message);
  if (table->suite.empty()) return inconclusive("no confirmation session was measured");
  std::vector<stats::ShapeSeries> shapes;
  for (std::size_t i = 0; i < in.labels.size(); ++i) {
    shapes.push_back({in.labels[i], table->per_shape[i], false, table->slacks});
  }
  for (std::size_t i = 0; i < table->directions.size(); ++i) {
    shapes.push_back({table->directions[i], table->per_direction[i], false, table->slacks});
  }
  const stats::NonInferiority test = stats::test_noninferiority(shapes, in.protocol.noninferiority, in.protocol.alpha);
  if (test.passed) return pass(test.reason);
  for (const stats::ShapeResult& shape : test.shapes) {
    if (shape.verdict == stats::ShapeVerdict::kWorse) {
      return fail(fmt::format("{} is slower by {:.2g} % or more: {:.3f}x", shape.label,
                              100 * in.protocol.noninferiority, shape.ratio));
    }
  }
  return inconclusive(test.reason);
}

// The floors that times are held to: of every shape, and of every direction of a project's table that has a time of its
// own.
struct Floor {
  std::string label, bound;
  double seconds = 0;
  std::vector<double> values;  // of the candidate
};
std::vector<Floor> floors_of(const GateInput& in) {
  std::vector<Floor> floors;
  for (const record::RooflinePoint& bound : in.bounds) {
    floors.push_back(
        {bound.label, bound.bound, bound.bound_time, launches(in.evaluation.sessions, bound.label, Arm::kCandidate)});
    for (const record::DirectionPoint& one : bound.directions) {
      std::vector<double> values = column_values(in.evaluation.sessions, one.name, bound.label, Arm::kCandidate);
      if (!values.empty())
        floors.push_back(
            {fmt::format("{}, {}", bound.label, one.name), bound.bound, one.bound_time, std::move(values)});
    }
  }
  return floors;
}

GateResult check_physics(const GateInput& in) {
  const double tolerance = in.disturbed.empty() ? kFloorTolerance : kDisturbedTolerance;
  const std::string note =
      in.disturbed.empty() ? "" : fmt::format("; the ceilings are lower bounds, because {} meanwhile", in.disturbed);
  double closest = 0.0;
  for (const Floor& floor : floors_of(in)) {
    if (floor.values.empty()) return inconclusive(fmt::format("{} was not measured", floor.label));
    const double latency = stats::median(floor.values);
    if (!(latency >= floor.seconds * (1.0 - tolerance))) {
      return fail(fmt::format(
          "audit: {}: {:.4g} s is under the {}-bound floor of {:.4g} s; the ceiling was measured too low, or "
          "the time is not real{}",
          floor.label, latency, floor.bound, floor.seconds, note));
    }
    closest = std::max(closest, floor.seconds / latency);
  }
  if (in.bounds.empty()) return inconclusive("no roofline bound is known");
  return pass(fmt::format("at most {:.1f} % of the measured ceiling{}", 100 * closest, note));
}

// A weight cache is worth what the incumbent spends on the weight in a training step, and no more.
GateResult check_weight_cache(const GateInput& in) {
  const auto &now = in.evaluation.training, &before = in.evaluation.incumbent_training;
  if (!now || !before) return inconclusive("W1: a weight cache needs its bound and hit trace, which were not taken");
  if (const std::string problem = training_problem(*now, true); !problem.empty()) {
    return fail(problem + "; REJECT-as-overfit");
  }
  return pass(fmt::format("W1: {} hits in {} steps, saves at most {:.2f} % of a step; ACCEPT-with-asterisk",
                          now->weight_hits, now->steps, 100 * weight_cache_bound(before->weight, before->step)));
}

GateResult check_transfer(const GateInput& in) {
  if (in.bucket.size() == 2 && in.bucket[0] == 'K' && in.bucket[1] >= '1' && in.bucket[1] <= '4') {
    return pass(in.bucket + ": inside one call, every timed call on a fresh input; ACCEPT-as-real");
  }
  if (in.bucket == "W1") return check_weight_cache(in);
  return fail(in.bucket + ": a gain that training cannot have; REJECT-as-overfit");
}

// An accept rests on objects that the sources make again, past the cache and out of everyone's reach: an object that
// was put into the cache, of either arm, decides nothing.
GateResult check_rebuild(const GateInput& in) {
  const record::Evaluation& e = in.evaluation;
  if (in.level != "full") return pass("nothing is accepted on a quick look");
  if (e.timing != kRebuilt) return pass("built by the project's own commands, which are in its trust");
  if (!e.rebuild) return inconclusive("the two objects were not built again");
  if (!e.rebuild->error.empty()) return inconclusive("they could not be built again: " + e.rebuild->error);
  if (!e.incumbent_artifact) return inconclusive("the incumbent's object, as it was measured, was not recorded");
  if (e.rebuild->candidate != e.build.artifact) {
    return fail(
        fmt::format("the measured object {} is not what the sources make: {}", e.build.artifact, e.rebuild->candidate));
  }
  if (e.rebuild->incumbent != *e.incumbent_artifact) {
    return fail(fmt::format("the incumbent's measured object {} is not what its sources make: {}",
                            *e.incumbent_artifact, e.rebuild->incumbent));
  }
  return pass(fmt::format("both objects came out the same again: {} and the incumbent's {}",
                          e.rebuild->candidate.substr(0, 12), e.rebuild->incumbent.substr(0, 12)));
}

constexpr DecisionGate kGates[] = {
    {"error budget", "Is there any of the campaign's error budget left?", check_budget},
    {"build", "Was this candidate built, and compared with the incumbent?", check_build},
    {"artifact", "Did the built object change with the sources?", check_artifact},
    {"correctness", "Is every output right, on every target shape?", check_correctness},
    {"verified calls", "Were calls verified on fresh inputs, for every shape?", check_verified},
    {"labels", "Were exactly the target shapes checked and measured, with valid times?", check_labels},
    {"sessions", "Is every session there, a measurement of its own, and few enough void?", check_sessions},
    {"effect", "Is the suite faster, with the error budget?", check_effect},
    {"non-inferiority", "Is no shape slower by the limit?", check_noninferiority},
    {"physics", "Is no time under the roofline floor?", check_physics},
    {"transfer", "Will training see the gain?", check_transfer},
    {kRebuildGate, "Do the sources make the measured objects again, past the cache?", check_rebuild},
    {kLevelGate, "Was it measured on all target shapes?", check_level},
};

}  // namespace

std::span<const DecisionGate> gates() { return kGates; }

bool in_force(const DecisionGate& gate, const GateInput& input) {
  return input.rebuilds || std::string_view(gate.name) != kRebuildGate;
}

Result<RatioTable> confirmation_ratios(const GateInput& input) {
  const stats::GuardRule guards = guard_rule(input.protocol, input.calibration);
  return ratio_table(valid_sessions(input.evaluation.sessions, "confirm"), input.labels, &guards);
}

}  // namespace ridge::campaign
