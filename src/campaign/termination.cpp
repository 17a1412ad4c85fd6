#include "campaign/termination.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/clock.h"
#include "base/error.h"
#include "campaign/project_table.h"
#include "campaign/state.h"
#include "campaign/target.h"

namespace ridge::campaign {
namespace {

struct Verdict {
  bool holds = false;
  bool applies = true;
  std::string detail;
};

Verdict target_reached(const State& state, const TerminationInput&) {
  if (!state.spec().performance_target) return {false, false, "no performance_target is set"};
  const TargetStatus status =
      check_target(*state.spec().performance_target, state.incumbent.roofline,
                   measured_roofline(state.baseline->evaluation.roofline, state.baseline->evaluation.sessions),
                   project_metric(state.spec()).value_or(record::Metric()));
  return {status.reached, true, status.detail};
}

Verdict efficiency_reached(const State& state, const TerminationInput&) {
  const double efficiency = geomean_efficiency(state.incumbent.roofline);
  const double wanted = state.spec().efficiency_target;
  return {efficiency >= wanted, true,
          fmt::format("{:.1f} % of the measured ceiling, {:.1f} % wanted", efficiency * 100, wanted * 100)};
}

Verdict iterations_used(const State& state, const TerminationInput&) {
  if (!state.max_iterations) return {false, false, "no max_iterations is set"};
  return {state.rounds_closed() >= *state.max_iterations, true,
          fmt::format("{} of {} attempts used", state.rounds_closed(), *state.max_iterations)};
}

Verdict stopped(const State&, const TerminationInput& input) {
  return {input.stop_requested, true, input.stop_requested ? "the user asked to stop" : "no stop was asked for"};
}

Verdict budget_used(const State& state, const TerminationInput& input) {
  const std::int64_t decisions = state.spec().protocol.max_decisions;
  if (state.decisions_used >= decisions) {
    return {true, true, fmt::format("all {} decisions of the error budget are used", decisions)};
  }
  if (state.wall_budget <= 0) {
    return {false, true, fmt::format("no wall budget; {} of {} decisions used", state.decisions_used, decisions)};
  }
  return {seconds_left(state, input) <= 0, true,
          fmt::format("{} of {} used, {} kept for the final measurement; {} of {} decisions used",
                      format_duration(input.active), format_duration(state.wall_budget), format_duration(input.reserve),
                      state.decisions_used, decisions)};
}

Verdict exhausted(const State& state, const TerminationInput&) {
  return {state.exhausted.has_value(), true,
          state.exhausted ? *state.exhausted : std::string("the proposer still has ideas")};
}

struct Condition {
  const char* name;
  const char* title;
  Verdict (*check)(const State& state, const TerminationInput& input);
};
constexpr Condition kConditions[] = {
    {"T1", "T1 performance_target", target_reached},
    {"T2", "T2 hardware efficiency", efficiency_reached},
    {"T3", "T3 max_iterations", iterations_used},
    {"T4", "T4 user stop", stopped},
    {"T5", "T5 budget", budget_used},
    {"exhausted", "proposer exhausted", exhausted},
};

}  // namespace

double seconds_left(const State& state, const TerminationInput& input) {
  if (state.wall_budget <= 0) return std::numeric_limits<double>::infinity();
  return state.wall_budget - input.reserve - input.active;
}

record::Termination check_termination(const State& state, const TerminationInput& input) {
  record::Termination termination;
  termination.condition = State::kNotYet;
  termination.detail = "no condition holds; the campaign goes on";
  bool found = false;
  for (const Condition& condition : kConditions) {
    const Verdict verdict = condition.check(state, input);
    const record::GateOutcome outcome = verdict.holds     ? record::GateOutcome::kPass
                                        : verdict.applies ? record::GateOutcome::kFail
                                                          : record::GateOutcome::kNotApplicable;
    termination.conditions.push_back({condition.title, outcome, verdict.detail});
    if (verdict.holds && !found) {
      found = true;
      termination.condition = condition.name;
      termination.detail = verdict.detail;
    }
  }
  return termination;
}

}  // namespace ridge::campaign
