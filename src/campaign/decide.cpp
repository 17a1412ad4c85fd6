#include "campaign/decide.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "campaign/level.h"
#include "campaign/rules/rule.h"
#include "campaign/sweep.h"
#include "campaign/transition.h"
#include "stats/confirm.h"
#include "stats/plain_rule.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

using record::Decision;
using record::GateOutcome;
using record::GateResult;
using record::Outcome;

const GateResult* first_not_passed(const std::vector<GateResult>& results) {
  const auto found = std::find_if(results.begin(), results.end(),
                                  [](const GateResult& result) { return result.outcome != GateOutcome::kPass; });
  return found == results.end() ? nullptr : &*found;
}

Outcome outcome_of(const GateResult& reason, const record::Evaluation& evaluation) {
  if (evaluation.outcome == Outcome::kHarnessFault) return Outcome::kHarnessFault;
  if (reason.gate == "physics" && reason.outcome == GateOutcome::kFail)
    return Outcome::kHarnessFault;                                 // an audit error
  if (reason.gate == kRebuildGate) return Outcome::kHarnessFault;  // the cache or the compiler, not the candidate
  if (reason.outcome == GateOutcome::kInconclusive) return Outcome::kAmbiguous;
  // What the worker says against the candidate stands.
  if (evaluation.outcome != Outcome::kPass) return evaluation.outcome;
  if (reason.gate == "correctness" || reason.gate == "verified calls") return Outcome::kWrong;
  if (reason.gate == "labels" || reason.gate == "sessions") return Outcome::kCheat;
  return Outcome::kSlower;
}

std::string accepted_reason(const Decision& decision) {
  const record::Effect& suite = decision.effects.front();
  return fmt::format("{:.2f}x as fast as the incumbent ({:.0f} % interval {:.2f}x to {:.2f}x over {} sessions)",
                     suite.ratio, 100 * suite.confidence, suite.low, suite.high, suite.sessions);
}

// The written rules that a decision rests on beside its gates: one more gate, the last.
void ask_the_rules(const State& state, const Round& round, Decision& decision) {
  GateResult result{"rules", GateOutcome::kPass, "no written rule speaks against it"};
  if (const GateResult* failed = first_not_passed(decision.gates)) {
    result = {"rules", GateOutcome::kNotApplicable, "rejected by the gate " + failed->gate};
  } else if (const std::vector<record::RuleRow> blocked = blocking(judge_for_decision({state, &round}));
             !blocked.empty()) {
    const bool fails = blocked.front().verdict == record::RuleVerdict::kFail;
    result = {"rules", fails ? GateOutcome::kFail : GateOutcome::kInconclusive, blocking_text(blocked)};
    decision.accepted = false;
    decision.outcome = fails ? Outcome::kSlower : Outcome::kAmbiguous;
    decision.reason = "rules: " + result.detail;
    if (decision.plain_rule_accepts) decision.plain_rule += "; it disagrees with the decision";
  }
  decision.gates.push_back(std::move(result));
}

// A sweep of which no configuration was usable, or worth measuring, or a round that was abandoned: there is nothing to
// put through gates.
Decision decide_unusable(const State& state, const Round& round, Decision decision) {
  const Attempt& attempt = round.last();
  const bool own_state = state.prepared && state.prepared->rendering >= 2;  // of what was not looked at
  decision.outcome = Outcome::kAmbiguous;
  decision.reason = "nothing was evaluated";
  decision.plain_rule = "rejects: nothing was measured";
  if (const auto hopeless = attempt.screened ? why_not_measured(*attempt.screened) : std::nullopt) {
    decision.outcome = Outcome::kSlower;
    decision.reason = "effect: " + *hopeless;
    decision.gates.push_back({"effect", GateOutcome::kFail, *hopeless});
    return decision;
  }
  if (attempt.screened && !attempt.screened->rows.empty()) {
    const std::vector<record::ScreenRow>& rows = attempt.screened->rows;
    const auto missed =
        std::find_if(rows.begin(), rows.end(), [](const record::ScreenRow& row) { return !settles(row.outcome); });
    const record::ScreenRow& first = own_state && missed != rows.end() ? *missed : rows.front();
    decision.outcome = first.outcome == Outcome::kPass ? Outcome::kSlower : first.outcome;
    decision.reason = fmt::format("none of the {} configurations could be used; {}: {} {}", rows.size(),
                                  own_state && missed != rows.end() ? "one was not looked at" : "the first",
                                  record::name_of(first.outcome), first.detail);
  }
  const bool refuted = !own_state || settles(decision.outcome);
  decision.gates.push_back({"build", refuted ? GateOutcome::kFail : GateOutcome::kInconclusive, decision.reason});
  return decision;
}

}  // namespace

GateInput gate_input(const State& state, const Round& round) {
  GateInput input;
  input.protocol = state.spec().protocol;
  input.calibration = state.calibration;
  if (round.last().evaluated) input.level = round.last().evaluated->level;
  input.labels = labels_of_level(state, input.level);
  input.incumbent_id = round.incumbent.id();
  input.incumbent_artifact = state.incumbent.build.artifact;
  input.rebuilds = state.prepared && state.prepared->frozen.contains(kRebuildGate);
  input.bucket = round.last().proposal.hypothesis.bucket;
  for (const record::RooflinePoint& bound : state.baseline->evaluation.roofline) {
    if (std::find(input.labels.begin(), input.labels.end(), bound.label) != input.labels.end()) {
      input.bounds.push_back(bound);
    }
  }
  if (state.prepared) {
    for (const record::Ceiling& one : state.prepared->ceilings) {
      if (!one.disturbed.empty()) input.disturbed = one.disturbed;
    }
  }
  input.noise = noise_limits(state);
  std::erase_if(input.noise.baseline, [&](const SignalToNoise& one) {
    return std::find(input.labels.begin(), input.labels.end(), one.label) == input.labels.end();
  });
  input.metric = project_metric(state.spec());
  if (const std::vector<record::Session>& sessions = state.baseline->evaluation.sessions; !sessions.empty())
    input.directions = directions_of(sessions.front(), input.labels);
  input.decisions_used = state.decisions_used;
  if (const record::Candidate* candidate = round.last().candidate()) input.candidate_id = candidate->id();
  if (round.last().evaluated) input.evaluation = round.last().evaluated->evaluation;
  return input;
}

bool needs_rebuild(const State& state, const record::Evaluated& evaluated) {
  GateInput input = gate_input(state, *state.open_round());
  input.level = evaluated.level;
  input.labels = labels_of_level(state, input.level);
  input.candidate_id = evaluated.candidate.id();
  input.evaluation = evaluated.evaluation;
  if (!input.rebuilds || input.level != "full" || input.evaluation.timing != record::Evaluation{}.timing) return false;
  constexpr std::string_view kOthers[] = {kRebuildGate};
  return judge(input, kOthers).accepted;
}

bool passes_quick_look(const State& state) {
  const GateInput input = gate_input(state, *state.open_round());
  return std::all_of(gates().begin(), gates().end(), [&](const DecisionGate& gate) {
    return std::string_view(gate.name) == kLevelGate || !in_force(gate, input) ||
           gate.check(input).outcome == GateOutcome::kPass;
  });
}

Decision decide(const State& state) {
  const Round& round = *state.open_round();
  if (round.last().evaluated) {
    Decision decision = judge(gate_input(state, round));
    decision.round = round.number;
    if (rules_in_force(state)) ask_the_rules(state, round, decision);
    return decision;
  }
  Decision decision;
  decision.round = round.number;
  decision.incumbent = round.incumbent.id();
  if (const record::Candidate* candidate = round.last().candidate()) decision.candidate = candidate->id();
  return decide_unusable(state, round, std::move(decision));
}

Decision judge(const GateInput& input, std::span<const std::string_view> without) {
  Decision decision;
  decision.incumbent = input.incumbent_id;
  decision.candidate = input.candidate_id;
  for (const DecisionGate& gate : gates()) {
    if (!in_force(gate, input)) continue;
    if (std::find(without.begin(), without.end(), gate.name) != without.end()) continue;
    GateResult result = gate.check(input);
    result.gate = gate.name;
    decision.gates.push_back(std::move(result));
  }
  decision.needed = sequential_rule(input.protocol).needed();
  if (const Result<RatioTable> table = confirmation_ratios(input); table && !table->suite.empty()) {
    decision.effects = effects_of(*table, input.labels, Stopping::kByTest);
    decision.directions = direction_effects(*table, Stopping::kByTest);
    decision.evidence = stats::decide(table->suite, sequential_rule(input.protocol), table->slacks).evidence;
    const PlainRule plain = plain_rule(*table, input.labels);
    decision.plain_rule_accepts = plain.accepts;
    decision.plain_rule = plain.text;
  } else {
    decision.plain_rule = "rejects: nothing was confirmed";
  }
  const GateResult* reason = first_not_passed(decision.gates);
  decision.accepted = reason == nullptr && !decision.effects.empty();
  decision.outcome = decision.accepted ? Outcome::kPass : outcome_of(*reason, input.evaluation);
  decision.reason = decision.accepted ? accepted_reason(decision) : fmt::format("{}: {}", reason->gate, reason->detail);
  if (decision.plain_rule_accepts != decision.accepted) decision.plain_rule += "; it disagrees with the decision";
  return decision;
}

bool sessions_settled(const record::WorkerRequest& request, const std::vector<record::Session>& sessions) {
  const std::vector<std::string> labels = labels_of(request.cases);
  for (const record::Session* screen : valid_sessions(sessions, "screen")) {
    const Result<SessionRatios> ratios = session_ratios(*screen, labels);
    if (!ratios || stats::screened_out(ratios->suite, request.protocol.min_effect)) return true;
  }
  const stats::GuardRule guards = guard_rule(request.protocol, request.calibration.value_or(record::Calibration()));
  const Result<RatioTable> table = ratio_table(valid_sessions(sessions, "confirm"), labels, &guards);
  if (!table) return true;
  std::vector<std::string> judged = labels;  // and every direction of a project's table
  judged.insert(judged.end(), table->directions.begin(), table->directions.end());
  stats::Confirmation test({sequential_rule(request.protocol), request.protocol.noninferiority, request.protocol.alpha},
                           judged);
  for (std::size_t i = 0; i < table->suite.size(); ++i) {
    std::vector<double> ratios;
    for (const std::vector<double>& shape : table->per_shape) ratios.push_back(shape[i]);
    for (const std::vector<double>& direction : table->per_direction) ratios.push_back(direction[i]);
    test.add({table->suite[i], std::move(ratios), table->slacks[i]});
  }
  return test.stopped();
}

std::vector<record::Effect> final_effects(const record::Evaluation& evaluation, const std::vector<std::string>& labels,
                                          const stats::GuardRule& guards) {
  std::vector<const record::Session*> sessions;
  for (const record::Session& session : evaluation.sessions) {
    if (!session.voided && session.role != "screen") sessions.push_back(&session);
  }
  const Result<RatioTable> table = ratio_table(sessions, labels, &guards);
  return table ? effects_of(*table, labels, Stopping::kFixed) : std::vector<record::Effect>();
}

PlainRule plain_rule(const RatioTable& table, const std::vector<std::string>& labels) {
  stats::PlainRuleInput input;
  for (const double value : table.suite) input.remeasured.push_back(std::expm1(value));
  input.aggregate_gain = stats::mean(input.remeasured);
  input.labels = labels;
  for (const std::vector<double>& shape : table.per_shape) input.shape_gains.push_back(std::expm1(stats::mean(shape)));
  const stats::PlainRule rule = stats::plain_rule(input);
  return {rule.accepts, (rule.accepts ? "accepts: " : "rejects: ") + rule.reason};
}

}  // namespace ridge::campaign
