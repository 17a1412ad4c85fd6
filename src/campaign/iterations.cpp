#include "campaign/iterations.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/error.h"
#include "campaign/render.h"
#include "campaign/state.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

using record::Iteration;
using record::IterationStatus;
using record::Outcome;

// What a build must show by its instruction counts. Metrics that a build does not count are left out.
struct IsaTarget {
  const char* metric;
  double target;
  const char* source;
};
constexpr IsaTarget kIsaTargets[] = {
    {"hot_loop_spill", 0, "a spill in the hottest loop is a load and a store that the algorithm does not need"},
    {"stack_spill", 0, "no vector moves to and from the stack inside loops"},
    {"fma_scalar", 0, "a scalar multiply-add uses one lane of a vector unit"},
    {"gather", 0, "a gather is one load per lane"},
    {"spill_bytes", 0, "ptxas: no bytes spilled or reloaded"},
    {"wgmma_serialised", 0, "ptxas C7510 to C7514: wgmma serialised"},
};

std::vector<record::IsaMetricProgress> isa_progress(const record::BuildEvidence& build) {
  std::vector<record::IsaMetricProgress> rows;
  for (const IsaTarget& one : kIsaTargets) {
    const auto found = build.counts.find(one.metric);
    if (found == build.counts.end()) continue;
    record::IsaMetricProgress& row = rows.emplace_back();
    row.metric = one.metric;
    row.source = one.source;
    row.target = one.target;
    row.current = found->second;
    row.met = found->second <= one.target;
  }
  return rows;
}

template <class Value>
double geomean_over(const std::vector<record::RooflinePoint>& points, const Value& value) {
  std::vector<double> values;
  for (const record::RooflinePoint& point : points) values.push_back(value(point));
  return stats::geomean(values);
}

// The fraction of the bound on one axis, over the shapes that this axis bounds. A point above its bound is a fault of
// the ceiling and gives no utilisation.
std::optional<double> utilisation(const std::vector<record::RooflinePoint>& points, bool memory) {
  std::vector<record::RooflinePoint> bound;
  for (const record::RooflinePoint& point : points) {
    if ((point.bound == "memory") == memory && point.fraction > 0) bound.push_back(point);
  }
  if (bound.empty()) return std::nullopt;
  const double fraction = geomean_over(bound, [](const auto& point) { return point.fraction; });
  return fraction <= 1 ? std::optional(fraction) : std::nullopt;
}

record::IterationPerformance performance_of(const std::vector<record::RooflinePoint>& points) {
  record::IterationPerformance p;
  if (points.empty()) return p;
  p.latency_us = 1e6 * geomean_over(points, [](const auto& point) { return point.latency; });
  for (const record::RooflinePoint& point : points) p.latency_us_by_shape[point.label] = 1e6 * point.latency;
  if (std::ranges::all_of(points, [](const auto& point) { return point.cost.flop > 0; }))
    p.tflops = geomean_over(points, [](const auto& point) { return point.cost.flop / point.latency / 1e12; });
  if (std::ranges::all_of(points, [](const auto& point) { return point.cost.bytes > 0; }))
    p.bandwidth_gbps = geomean_over(points, [](const auto& point) { return point.cost.bytes / point.latency / 1e9; });
  p.compute_utilisation = utilisation(points, false);
  p.memory_utilisation = utilisation(points, true);
  return p;
}

// Of a round that settles nothing, what its checks found, if it came to any.
IterationStatus correctness_of(const Round& round) {
  const Outcome outcome = round.decision->outcome;
  if (outcome == Outcome::kHang) return IterationStatus::kTimeoutFail;
  if (outcome == Outcome::kPass || outcome == Outcome::kSlower) return IterationStatus::kPass;
  if (settles(outcome)) return IterationStatus::kFail;
  const std::optional<record::Evaluated>& evaluated = round.last().evaluated;
  if (!evaluated || evaluated->evaluation.checks.empty()) return IterationStatus::kNotMeasured;
  for (const record::CheckRow& row : evaluated->evaluation.checks) {
    if (!settles(row.outcome)) return IterationStatus::kNotMeasured;
    if (row.outcome != Outcome::kPass) return IterationStatus::kFail;
  }
  return IterationStatus::kPass;
}

IterationStatus verdict_of(const Round& round) {
  switch (round.state()) {
    case record::RoundState::kAccepted: return IterationStatus::kPass;
    case record::RoundState::kNotSettled: return IterationStatus::kNotSettled;
    case record::RoundState::kNotMeasured: return IterationStatus::kNotMeasured;
    default: return round.decision->outcome == Outcome::kHang ? IterationStatus::kTimeoutFail : IterationStatus::kFail;
  }
}

// The largest error of the checks as a ratio of norms: 10^(-SNR / 20).
std::optional<double> relative_error(const std::vector<record::CheckRow>& checks) {
  std::optional<double> worst;
  for (const record::CheckRow& row : checks) {
    const double error = std::pow(10.0, -row.snr_db / 20);
    if (row.elements > 0 && std::isfinite(error)) worst = std::max(worst.value_or(0), error);
  }
  return worst;
}

record::Bottleneck bottleneck_of(const std::string& name) {
  for (const auto& [value, text] : record::EnumNames<record::Bottleneck>::kNames) {
    if (text == name) return value;
  }
  return record::Bottleneck::kUnknown;
}

std::string defines_text(const std::map<std::string, std::int64_t>& defines) {
  std::vector<std::string> words;
  for (const auto& [name, value] : defines) words.push_back(fmt::format("{}={}", name, value));
  return words.empty() ? "no parameters" : fmt::format("{}", fmt::join(words, " "));
}

std::string error_type(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCompile: return "compilation";
    case Outcome::kWrong: return "accuracy";
    case Outcome::kHang: return "timeout";
    case Outcome::kSlower: return "performance";
    case Outcome::kCheat: return "cheat";
    default: return "runtime";
  }
}

// What broke in the attempts of a round, what was refused, and whether a later attempt mended it.
// The first rendering (record::kRendering) had faults of the harness among them.
std::vector<record::PitfallAndFix> pitfalls(const Round& round, bool with_faults) {
  std::vector<record::PitfallAndFix> rows;
  for (std::size_t i = 0; i < round.attempts.size(); ++i) {
    const Attempt& attempt = round.attempts[i];
    if (!attempt.evaluated) continue;
    const record::Evaluation& evaluation = attempt.evaluated->evaluation;
    if (evaluation.outcome == Outcome::kPass || evaluation.outcome == Outcome::kAmbiguous) continue;
    if (evaluation.outcome == Outcome::kHarnessFault && !with_faults) continue;
    record::PitfallAndFix& row = rows.emplace_back();
    row.error_type = error_type(evaluation.outcome);
    row.error_message =
        evaluation.detail.empty() ? std::string(record::name_of(evaluation.outcome)) : evaluation.detail;
    row.root_cause = attempt.proposal.hypothesis.mechanism;
    const bool last = i + 1 == round.attempts.size();
    row.fix_applied = last ? "rolled back" : fmt::format("answered by attempt {}", i + 2);
    if (last && round.decision) row.lesson = round.decision->reason;
  }
  for (const record::Proposed& answer : round.refused) {
    if (answer.refused.empty()) continue;
    rows.push_back({"refused", answer.refused, answer.proposal.hypothesis.mechanism, "the answer did not count", {}});
  }
  return rows;
}

void add_sweep(std::vector<record::SearchLogEntry>& log, const record::Screened& screened) {
  for (const record::ScreenRow& row : screened.rows) {
    const bool chosen = row.candidate == screened.chosen;
    log.push_back({"sweep", defines_text(row.defines),
                   row.outcome == Outcome::kPass ? fmt::format("{:.4f} of the bound", row.score)
                                                 : fmt::format("{}: {}", record::name_of(row.outcome), row.detail),
                   chosen ? "measured as this round's candidate" : "not the best of the sweep"});
  }
}

// The evidence that was gathered before this round's hypothesis.
const record::Escalated* evidence_before(const State& state, const Round& round) {
  const record::Escalated* found = nullptr;
  for (const record::Escalated& one : state.escalations) {
    if (one.after_round < round.number && !round.hidden.contains(one.after_round)) found = &one;
  }
  return found != nullptr && found->after_round + 1 == round.number ? found : nullptr;
}

std::vector<record::SearchLogEntry> search_log(const State& state, const Round& round) {
  std::vector<record::SearchLogEntry> log;
  if (const record::Escalated* evidence = evidence_before(state, round)) {
    for (const std::string& finding : evidence->findings) {
      log.push_back({"evidence", fmt::format("escalation {} after round {}", evidence->level, evidence->after_round),
                     finding, round.last().proposal.hypothesis.title});
    }
  }
  for (const Attempt& attempt : round.attempts) {
    if (attempt.screened) add_sweep(log, *attempt.screened);
  }
  return log;
}

// The directions that the evidence before a round named and the round did not take, after those in `open`.
std::vector<record::OpenDirection> not_taken(const State& state, const Round& round,
                                             std::vector<record::OpenDirection> open) {
  const record::Escalated* evidence = evidence_before(state, round);
  if (evidence == nullptr) return open;
  for (const record::Direction& direction : evidence->directions) {
    if (direction.category == round.last().proposal.hypothesis.category || open.size() == 3) continue;
    open.push_back({direction.title, direction.hypothesis});
  }
  return open;
}

std::vector<record::OpenDirection> left_open_by(const State& state, const Round& round) {
  if (!round.without_verdict()) return not_taken(state, round, {});
  const std::string why = fmt::format("{}: {}", record::name_of(round.state()), round.decision->reason);
  return not_taken(state, round, {{round.last().proposal.hypothesis.title, why}});
}

void refer(Iteration& it, const State& state, std::int64_t round, const record::Candidate& candidate,
           const std::string& standing) {
  it.references.push_back({"campaign", state.spec().id, fmt::format("round {}", round)});
  it.references.push_back({"candidate", candidate.id(), standing});
}

constexpr const char* kUnsettled = "unsettled";

}  // namespace

void give_own_state(Iteration& iteration) {
  record::IterationGate& gate = iteration.quality_gate;
  const bool unsettled = std::ranges::any_of(iteration.references, [](const record::IterationReference& one) {
    return one.source_type == "candidate" && one.description == kUnsettled;
  });
  if (!unsettled || gate.result != IterationStatus::kFail) return;
  const bool measured = iteration.performance.speedup_over_previous.has_value();
  gate.result = measured ? IterationStatus::kNotSettled : IterationStatus::kNotMeasured;
  if (!iteration.correctness.rel_err) iteration.correctness.status = IterationStatus::kNotMeasured;
}

Iteration iteration_of_baseline(const State& state) {
  const record::Baseline& baseline = *state.baseline;
  const record::BuildEvidence& build = baseline.evaluation.build;
  Iteration it;
  it.timestamp = state.baseline_at.substr(0, 10) + " " + state.baseline_at.substr(11, 5);
  it.performance = performance_of(measured_roofline(baseline.evaluation.roofline, baseline.evaluation.sessions));
  it.optimization = {"baseline", "the kernel to beat: " + state.spec().kernel_source, {}, {}};
  it.profile_evidence.tool_used = "paired sessions, instruction counts of the build";
  it.profile_evidence.evidence_summary = fmt::format("{} sessions against itself", baseline.evaluation.sessions.size());
  it.correctness = {IterationStatus::kPass, relative_error(baseline.evaluation.checks)};
  it.quality_gate.result = IterationStatus::kPass;
  it.isa_metric_progress = isa_progress(build);
  if (!state.tips->tips.empty()) {
    it.search_log.push_back({"tips", state.tips->digest.substr(0, 12),
                             fmt::format("{} tips of earlier campaigns", state.tips->tips.size()),
                             "given to the proposer in every round"});
  }
  refer(it, state, 1, baseline.candidate, "baseline");
  it.git_commit_hash = state.baseline_committed->commit;
  return it;
}

Iteration iteration_of(const State& state, const Round& round) {
  const record::Hypothesis& h = round.last().proposal.hypothesis;
  const record::Decision& decision = *round.decision;
  const bool accepted = round.committed.has_value();
  Iteration it;
  it.timestamp = round.closed_at.substr(0, 10) + " " + round.closed_at.substr(11, 5);
  it.optimization = {h.category, fmt::format("{} ({})", h.title, h.mechanism),
                     fmt::format("{:+.1f} %{}{}", 100 * h.expected_gain, h.expected_gain_arithmetic.empty() ? "" : ": ",
                                 h.expected_gain_arithmetic),
                     fmt::format("{}; a rollback restores round {}", fmt::join(h.risks, "; "), round.incumbent_round)};
  it.profile_evidence.tool_used = "paired sessions, instruction counts of the build";
  it.profile_evidence.evidence_summary = decision.reason;
  it.profile_evidence.evidence_chain =
      fmt::format("{} -> {} -> {}", fmt::join(h.evidence, ", "), h.bottleneck, h.mechanism);
  it.profile_evidence.bottleneck_type = bottleneck_of(h.bottleneck);
  it.correctness.status = correctness_of(round);
  const bool measured = round.state() != record::RoundState::kNotMeasured;
  if (const std::optional<record::Evaluated>& evaluated = round.last().evaluated) {
    if (measured) it.performance = performance_of(points_of(state, round));
    it.correctness.rel_err = relative_error(evaluated->evaluation.checks);
    it.isa_metric_progress = isa_progress(evaluated->evaluation.build);
  }
  if (measured && !decision.effects.empty()) it.performance.speedup_over_previous = decision.effects.front().ratio;
  it.search_log = search_log(state, round);
  it.pitfalls_and_fixes = pitfalls(round, false);
  it.quality_gate.result = verdict_of(round);
  if (!accepted) it.quality_gate.failure_reason = decision.reason;
  it.open_directions = left_open_by(state, round);
  if (const record::Candidate* candidate = round.last().candidate()) {
    const bool refuted = round.state() == record::RoundState::kRolledBack;
    refer(it, state, round.number, *candidate, accepted ? "accepted" : refuted ? "refuted" : kUnsettled);
  } else {
    it.references.push_back({"campaign", state.spec().id, fmt::format("round {}", round.number)});
  }
  if (accepted) it.git_commit_hash = round.committed->commit;
  return it;
}

Iteration first_rendering_of(const State& state, const Round& round) {
  Iteration it = iteration_of(state, round);
  if (!round.without_verdict()) return it;
  const record::Decision& decision = *round.decision;
  it.quality_gate.result = IterationStatus::kFail;
  it.correctness.status = decision.outcome == Outcome::kAmbiguous ? IterationStatus::kPass : IterationStatus::kFail;
  if (round.last().evaluated) it.performance = performance_of(points_of(state, round));
  if (!decision.effects.empty()) it.performance.speedup_over_previous = decision.effects.front().ratio;
  it.pitfalls_and_fixes = pitfalls(round, true);
  it.open_directions = not_taken(state, round, {});
  return it;
}

}  // namespace ridge::campaign
