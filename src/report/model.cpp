// Draws the report's model from the state of a campaign.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/ranges.h>

#include "base/error.h"
#include "journal/directions.h"
#include "journal/fold.h"
#include "journal/protocol.h"
#include "journal/replica.h"
#include "journal/samples.h"
#include "report/diff.h"
#include "report/ratios.h"
#include "report/report.h"
#include "report/words.h"

namespace ridge::report {
namespace {

using journal::Attempt;
using journal::Round;
using journal::State;
using record::Effect;
using record::EventKind;

// A product of ratios, each measured in sessions of its own: errors are independent, so the half-widths of the log
// ratios add in quadrature.
struct Chain {
  double log_ratio = 0, low_square = 0, high_square = 0, confidence = 1;
  std::int64_t sessions = 0;

  [[nodiscard]] Chain times(const Effect& effect) const {
    Chain next = *this;
    const auto square = [](double x) { return x * x; };
    next.log_ratio += std::log(effect.ratio);
    next.low_square += square(std::log(effect.ratio / effect.low));
    next.high_square += square(std::log(effect.high / effect.ratio));
    next.confidence = std::min(confidence, effect.confidence);
    next.sessions += effect.sessions;
    return next;
  }
  [[nodiscard]] Effect effect(std::string_view label) const {
    return {std::string(label),
            std::exp(log_ratio),
            std::exp(log_ratio - std::sqrt(low_square)),
            std::exp(log_ratio + std::sqrt(high_square)),
            confidence,
            sessions};
  }
};

bool usable(const Effect& effect) {
  return std::isfinite(effect.ratio) && effect.ratio > 0 && std::isfinite(effect.low) && effect.low > 0 &&
         std::isfinite(effect.high);
}

std::string shape_key(std::size_t index) {
  std::string key(1, static_cast<char>('A' + index % 26));
  return index < 26 ? key : shape_key(index / 26 - 1) + key;
}

// An answer that opened no attempt: what it was about, and why not.
void add_usage(std::optional<record::Usage>& sum, const std::optional<record::Usage>& one) {
  if (!one) return;
  if (!sum) sum.emplace();
  *sum += *one;
}

std::string refused_words(const record::Proposed& answer) {
  const std::string& title = answer.proposal.hypothesis.title;
  return title.empty() ? answer.refused : fmt::format("\"{}\": {}", title, answer.refused);
}

std::optional<Effect> find_effect(const std::vector<Effect>& effects, std::string_view label) {
  for (const Effect& effect : effects) {
    if (effect.label == label && usable(effect)) return effect;
  }
  return std::nullopt;
}

// What happened outside of the rounds, in words.
struct InWords {
  std::string operator()(const record::Note& note) const { return note.text; }
  std::string operator()(const record::BudgetChange& budget) const { return budget_words(budget); }
  std::string operator()(const record::Waived& waived) const {
    return fmt::format("rule {} waived by {}: {}", waived.rule, waived.by, waived.reason);
  }
  std::string operator()(const record::Masked& masked) const {
    return masked.versions.empty() ? std::string("every memory record is shown")
                                   : fmt::format("memory masked: {}", fmt::join(masked.versions, " "));
  }
  std::string operator()(const record::Calibrated& calibrated) const {
    return "The incumbent was measured against itself: " + calibrated.calibration.reason + ".";
  }
};

class Drawing {
 public:
  explicit Drawing(const State& state) : state_(state) {}
  Model model(std::size_t torn_bytes);

 private:
  // Of the baseline, which every bound is from, and of what was evaluated later.
  [[nodiscard]] std::vector<record::RooflinePoint> baseline_points() const;
  [[nodiscard]] std::vector<record::RooflinePoint> points_of(const record::Evaluated& evaluated) const;
  record::ReportTrial trial(const record::Evaluation& evaluation, std::string level, double outer_seconds);
  void count(const std::vector<record::Session>& sessions);

  void draw_start();
  void draw_baseline();
  void draw_round(const Round& round);
  void draw_attempts(record::ReportRound& target, const Round& round);
  void draw_decision(record::ReportRound& target, const Round& round);
  void draw_accepted(const record::ReportRound& target, const Round& round);
  void draw_final(const record::Final& final_event, double seconds);
  void draw_replica(const record::Final& final_event, const record::Replicated& replicated, double seconds);
  void draw_calibration(const record::Calibrated& calibrated, double seconds);
  void draw_notes();
  void draw_timeline();
  [[nodiscard]] std::vector<double> evidence_of(const Round& round) const;

  // Of the recorded effects of one kind, oldest first.
  [[nodiscard]] std::vector<double> seconds_of(EventKind kind) const;
  void spend(const std::string& activity, double seconds);
  void spend_sessions(const std::vector<record::Session>& sessions, double seconds);
  void take_peers(const std::vector<record::BenchRow>& rows);
  void take_known(const record::Escalated& escalated);
  void fill_shapes();
  void fill_total();
  void fill_best();
  void fill_peers();
  void fill_time();
  void fill_state();

  const State& state_;
  Model model_;
  Chain suite_;                               // of the accepted rounds so far
  std::map<std::string, Chain> shape_chain_;  // the same per shape
  std::map<std::string, double> spent_;
  std::vector<Effect> final_effects_, last_accepted_effects_;
  std::map<std::string, double> final_initial_, final_best_;  // median latencies in the final sessions
  std::vector<record::Session> final_sessions_;
  std::vector<record::RooflinePoint> best_roofline_;
  std::map<std::string, record::ReportPeer> peers_;        // of the escalations, the latest, by label
  std::map<std::string, record::ReportPeer> final_peers_;  // in turns with the best kernel, by label
};

std::vector<record::RooflinePoint> Drawing::baseline_points() const {
  const record::Evaluation& evaluation = state_.baseline->evaluation;
  return journal::measured_roofline(evaluation.roofline, evaluation.sessions);
}

std::vector<record::RooflinePoint> Drawing::points_of(const record::Evaluated& evaluated) const {
  return journal::measured_roofline(state_.baseline->evaluation.roofline, evaluated.evaluation.sessions);
}

std::vector<double> Drawing::seconds_of(EventKind kind) const {
  std::vector<double> seconds;
  for (const journal::CostRow& row : state_.costs) {
    if (row.kind == kind) seconds.push_back(row.seconds);
  }
  return seconds;
}

void Drawing::spend(const std::string& activity, double seconds) {
  if (std::isfinite(seconds) && seconds > 0) spent_[activity] += seconds;
}

// Of a session only the launches that were timed are timing; the rest is what makes them trustworthy.
void Drawing::spend_sessions(const std::vector<record::Session>& sessions, double seconds) {
  double timed = 0;
  for (const auto& session : sessions) {
    for (const auto& shape : session.shapes) {
      for (const auto& quad : shape.quads) {
        for (const auto& block : quad.blocks) timed = std::accumulate(block.begin(), block.end(), timed);
      }
    }
  }
  timed = std::min(timed, seconds);
  spend("measure", timed);
  spend("prepare and verify", seconds - timed);
}

void Drawing::count(const std::vector<record::Session>& sessions) {
  for (const record::Session& session : sessions) {
    model_.launches += reduce(session).launches;
    model_.sessions += 1;
    model_.voided_sessions += session.voided ? 1 : 0;
  }
}

// Reduces raw samples to ratios and counts them; what the worker does not itemise is its start-up.
record::ReportTrial Drawing::trial(const record::Evaluation& evaluation, std::string level, double outer_seconds) {
  record::ReportTrial trial{std::move(level),
                            evaluation.candidate,
                            evaluation.incumbent,
                            evaluation.outcome,
                            evaluation.detail,
                            evaluation.build,
                            evaluation.checks,
                            {},
                            journal::measured_roofline(state_.baseline->evaluation.roofline, evaluation.sessions),
                            evaluation.seconds};
  for (const auto& session : evaluation.sessions) trial.sessions.push_back(reduce(session));
  count(evaluation.sessions);
  for (const auto& check : evaluation.checks) model_.verified_calls += check.verified_calls;
  double itemised = 0;
  for (const auto& [activity, seconds] : evaluation.seconds) {
    activity == "measure" ? spend_sessions(evaluation.sessions, seconds) : spend(activity, seconds);
    itemised += seconds;
  }
  spend("worker start-up and transfer", outer_seconds - itemised);
  return trial;
}

void Drawing::draw_start() {
  const record::Candidate& baseline = state_.baseline ? state_.baseline->candidate : state_.created->baseline;
  model_.spec = state_.spec();
  model_.spec.wall_budget = state_.wall_budget;
  model_.spec.max_iterations = state_.max_iterations;
  if (state_.baseline) model_.spec.representative_labels = state_.baseline->representative_labels;
  if (state_.confirmed) model_.confirmed_by = state_.confirmed->by;
  model_.baseline_id = baseline.id();
  model_.baseline_name = baseline.name;
  model_.best_id = state_.baseline ? state_.incumbent.candidate.id() : model_.baseline_id;
  model_.lineage = {{1, model_.baseline_id, "", "baseline: " + baseline.name, "", "", std::nullopt, 1.0}};
  if (state_.baseline_committed) {
    model_.lineage.front().snapshot = state_.baseline_committed->snapshot;
    model_.lineage.front().commit = state_.baseline_committed->commit;
  }
  if (state_.tips) model_.tips = static_cast<std::int64_t>(state_.tips->tips.size());
  if (!state_.prepared) return;
  model_.environment = state_.prepared->environment;
  model_.ceilings = state_.prepared->ceilings;
  model_.frozen = state_.prepared->frozen;
  model_.branch = state_.prepared->branch;
  model_.base_commit = state_.prepared->base_commit;
  for (const double seconds : seconds_of(EventKind::kPrepared)) spend("measure the ceilings", seconds);
}

void Drawing::draw_baseline() {
  const record::Baseline& baseline = *state_.baseline;
  const std::vector<double>& noise = baseline.calibration.noise_by_shape;
  model_.noise = baseline.calibration.noise;
  model_.detectable = baseline.calibration.detectable;
  model_.baseline = trial(baseline.evaluation, "baseline", seconds_of(EventKind::kBaseline).front());
  for (std::size_t i = 0; i < baseline.evaluation.roofline.size(); ++i) {
    const record::RooflinePoint& bound = baseline.evaluation.roofline[i];
    record::ReportShape shape;
    shape.label = bound.label;
    shape.noise = i < noise.size() ? noise[i] : kNan;
    shape.cost = bound.cost;
    shape.intensity = bound.intensity;
    shape.bound_time = bound.bound_time;
    shape.bound = bound.bound;
    shape.baseline_latency = shape.best_latency =
        arm_latency(baseline.evaluation.sessions, bound.label, record::Arm::kCandidate);
    shape.baseline_value = shape.best_value =
        metric_value(baseline.evaluation.sessions, bound.label, record::Arm::kCandidate);
    model_.shapes.push_back(std::move(shape));
  }
  best_roofline_ = state_.incumbent.roofline;
}

// A define that is left out has the tunable's default value.
void describe_change(record::ReportRound& target, const record::Candidate& incumbent,
                     const record::Candidate& candidate, const record::TuneSpace& space) {
  const auto value_in = [](const record::Candidate& c, const std::string& name, std::int64_t fallback) {
    const auto found = c.defines.find(name);
    return found == c.defines.end() ? fallback : found->second;
  };
  for (const auto& tunable : space.tunables) {
    const std::int64_t before = value_in(incumbent, tunable.name, tunable.default_value);
    const std::int64_t after = value_in(candidate, tunable.name, tunable.default_value);
    if (before == after) continue;
    target.changed[tunable.name] = after;
    target.changes.push_back({tunable.name, before, after, tunable.title});
  }
  for (const auto& [name, value] : candidate.defines) {
    const auto declared = std::any_of(space.tunables.begin(), space.tunables.end(),
                                      [&name = name](const auto& tunable) { return tunable.name == name; });
    const auto before = incumbent.defines.find(name);
    if (declared || (before != incumbent.defines.end() && before->second == value)) continue;
    target.changed[name] = value;
    if (before != incumbent.defines.end()) target.changes.push_back({name, before->second, value, ""});
  }
  for (const auto& file : candidate.sources) {
    if (std::find(incumbent.sources.begin(), incumbent.sources.end(), file) == incumbent.sources.end()) {
      target.changed_files.push_back(file.path);
    }
  }
  target.source_diff = source_diff(incumbent.sources, candidate.sources);
}

void Drawing::draw_attempts(record::ReportRound& target, const Round& round) {
  const auto look = [&](const record::Evaluated& evaluated) {
    target.evaluate_seconds += evaluated.seconds;
    target.cpu_seconds += evaluated.cpu_seconds;
    target.trials.push_back(trial(evaluated.evaluation, evaluated.level, evaluated.seconds));
    const std::vector<double> screening = suite_log_ratios(target.trials.back(), "screen");
    if (!screening.empty()) target.screened = std::exp(screening.back());
  };
  const record::Evaluated* last = nullptr;
  for (const Attempt& attempt : round.attempts) {
    target.propose_seconds += attempt.seconds;
    add_usage(target.usage, attempt.proposal.usage);
    if (attempt.screened) {
      target.sweep = attempt.screened->rows;
      target.chosen = attempt.screened->chosen;
      target.screen_seconds += attempt.screened->seconds;
      target.cpu_seconds += attempt.screened->cpu_seconds;
    }
    if (attempt.quick) look(*attempt.quick);
    if (!attempt.evaluated) continue;
    look(*attempt.evaluated);
    last = &*attempt.evaluated;
  }
  spend("screen sweeps", target.screen_seconds);
  if (last == nullptr) return;
  target.candidate = last->candidate.id();
  target.candidate_name = last->candidate.name;
  target.parent = last->candidate.parent.empty() ? round.incumbent.id() : last->candidate.parent;
  target.outcome = last->evaluation.outcome;
  describe_change(target, round.incumbent, last->candidate, state_.baseline->space);
}

void Drawing::draw_decision(record::ReportRound& target, const Round& round) {
  const record::Decision& decision = *round.decision;
  target.decision = decision;
  target.outcome = decision.outcome;
  target.reason = decision.reason;
  target.state = round.state();
  if (decision.accepted && !round.committed)
    target.reason += " (Accepted, but not committed: an accepted round counts once it is committed.)";
  if (target.trials.empty()) return;
  target.measured = find_effect(decision.effects, "suite");
  if (!target.measured) {
    if (target.screened) target.speed = *target.screened * std::exp(suite_.log_ratio);
    return;
  }
  const Effect reached = suite_.times(*target.measured).effect("suite");
  target.speed = reached.ratio;
  target.low = reached.low;
  target.high = reached.high;
}

// The evidence after each session that counts. What a disturbed session must exceed depends on the machine's
// calibration at that time: the one that gives the decision's own value is it.
std::vector<double> Drawing::evidence_of(const Round& round) const {
  if (!round.last().evaluated) return {};
  const record::Evaluation& evaluation = round.last().evaluated->evaluation;
  std::vector<record::Calibration> known = {state_.baseline->calibration, {}};
  for (const journal::Occurrence& one : state_.occurrences) {
    if (const auto* calibrated = std::get_if<record::Calibrated>(&one.what)) known.push_back(calibrated->calibration);
  }
  std::vector<std::string> labels;
  for (const record::RooflinePoint& point : evaluation.roofline) labels.push_back(point.label);
  const auto sessions = journal::valid_sessions(evaluation.sessions, "confirm");
  const stats::SequentialRule rule = journal::sequential_rule(state_.spec().protocol);
  for (auto calibration = known.rbegin(); calibration != known.rend(); ++calibration) {
    const stats::GuardRule guards = journal::guard_rule(state_.spec().protocol, *calibration);
    const Result<journal::RatioTable> table = journal::ratio_table(sessions, labels, &guards);
    if (!table || table->suite.empty()) return {};
    stats::SequentialTest test(rule);
    std::vector<double> evidence;
    for (std::size_t i = 0; i < table->suite.size(); ++i) {
      if (test.result().verdict != stats::Verdict::kUndecided) break;
      test.add(table->suite[i], table->slacks[i]);
      evidence.push_back(test.result().evidence);
    }
    if (std::abs(evidence.back() - round.decision->evidence) <= 1e-9 * std::abs(round.decision->evidence))
      return evidence;
  }
  return {};
}

void Drawing::draw_accepted(const record::ReportRound& target, const Round& round) {
  model_.accepted += 1;
  last_accepted_effects_ = round.decision->effects;
  if (target.measured) suite_ = suite_.times(*target.measured);
  for (const Effect& effect : last_accepted_effects_) {
    if (usable(effect)) shape_chain_[effect.label] = shape_chain_[effect.label].times(effect);
  }
  model_.lineage.push_back({target.round, target.candidate, target.parent, target.hypothesis.title, target.snapshot,
                            target.commit, target.measured, std::exp(suite_.log_ratio)});
}

void Drawing::draw_round(const Round& round) {
  record::ReportRound target;
  target.round = round.number;
  target.started = round.opened;
  target.speed = target.low = target.high = kNan;
  target.reason = "The round has not been decided yet.";
  target.hypothesis = round.last().proposal.hypothesis;
  target.proposer = round.last().proposer;
  for (const record::Proposed& answer : round.refused) {
    add_usage(target.usage, answer.proposal.usage);
    if (!answer.refused.empty()) target.refused.push_back(refused_words(answer));
  }
  draw_attempts(target, round);
  if (round.decision) {
    draw_decision(target, round);
    target.evidence = evidence_of(round);
  }
  if (round.rolled_back) target.snapshot = round.rolled_back->snapshot;
  if (round.committed) {
    target.snapshot = round.committed->snapshot;
    target.commit = round.committed->commit;
    draw_accepted(target, round);
  }
  model_.rounds.push_back(std::move(target));
}

void Drawing::draw_final(const record::Final& final_event, double seconds) {
  model_.final_trial = trial(final_event.evaluation, "final", seconds);
  final_effects_ = final_event.effects;
  final_sessions_ = final_event.evaluation.sessions;
  model_.product_of_accepted = final_event.product_of_accepted;
  for (const auto& point : model_.final_trial->roofline) {
    final_initial_[point.label] = arm_latency(final_event.evaluation.sessions, point.label, record::Arm::kIncumbent);
    final_best_[point.label] = arm_latency(final_event.evaluation.sessions, point.label, record::Arm::kCandidate);
  }
  if (!model_.final_trial->roofline.empty()) best_roofline_ = model_.final_trial->roofline;
  take_peers(final_event.peers);
}

// Its roofline is left out: bounds are of this device.
void Drawing::draw_replica(const record::Final& final_event, const record::Replicated& replicated, double seconds) {
  record::ReportReplica replica;
  replica.place = replicated.place;
  replica.note = replicated.note;
  if (!replicated.environment.facts.empty()) {
    const std::string& backend = state_.spec().backend;
    const journal::Device there = journal::device_of(replicated.environment, backend);
    replica.device = journal::device_text(there);
    replica.kind = journal::kinship_words(
        journal::kinship(journal::device_of(state_.prepared->environment, backend, replicated.own_host), there));
  }
  if (!replicated.evaluation.candidate.empty()) {
    replica.trial = trial(replicated.evaluation, "replica", seconds);
    replica.trial->roofline.clear();
  }
  replica.rows = journal::compare_effects(final_event.effects, replicated.effects);
  if (!replica.rows.empty()) replica.agreement = journal::agreement_words(replica.rows);
  model_.replica = std::move(replica);
}

void Drawing::draw_calibration(const record::Calibrated& calibrated, double seconds) {
  count(calibrated.sessions);
  double measured = 0;
  for (const auto& session : calibrated.sessions) {
    const auto wall = session.guards.find("wall");
    if (wall != session.guards.end()) measured += wall->second;
  }
  spend_sessions(calibrated.sessions, measured);
  spend("worker start-up and transfer", seconds - measured);
}

void Drawing::draw_notes() {
  std::size_t calibrations = 0;
  for (const journal::Occurrence& one : state_.occurrences) {
    std::string text = std::visit(InWords(), one.what);
    if (one.kind == EventKind::kProposed) text = "The proposer has nothing left to try: " + text;
    model_.notes.push_back({one.time, std::string(record::name_of(one.kind)), std::move(text)});
    if (const auto* calibrated = std::get_if<record::Calibrated>(&one.what))
      draw_calibration(*calibrated, seconds_of(EventKind::kCalibrated)[calibrations++]);
  }
  for (const record::Proposed& answer : state_.refused) {
    model_.notes.push_back({model_.last_time, "refused", refused_words(answer)});
  }
}

void Drawing::draw_timeline() {
  for (const journal::CostRow& row : state_.costs) {
    model_.timeline.push_back(
        {std::string(record::name_of(row.kind)), row.round, std::max(row.total - row.seconds, 0.0), row.seconds});
  }
  model_.profiles = state_.profiles;
}

// The fastest implementation of each shape, from the runs in turns with the best kernel.
void Drawing::take_peers(const std::vector<record::BenchRow>& rows) {
  for (const record::BenchRow& row : rows) {
    if (row.outcome != record::Outcome::kPass || !row.ratio || !(*row.ratio > 0)) continue;
    record::ReportPeer peer{row.subject, row.label, row.median, 1 / *row.ratio, {}, {}};
    if (row.ratio_high && *row.ratio_high > 0) peer.ratio_low = 1 / *row.ratio_high;
    if (row.ratio_low && *row.ratio_low > 0) peer.ratio_high = 1 / *row.ratio_low;
    const auto [place, fresh] = final_peers_.try_emplace(row.label, peer);
    if (!fresh && peer.ratio < place->second.ratio) place->second = std::move(peer);
  }
}

// The best known implementation, where the engine measured it beside the incumbent of that time.
void Drawing::take_known(const record::Escalated& escalated) {
  std::vector<record::RooflinePoint> incumbent_points = baseline_points();
  for (const Round& round : state_.rounds) {
    if (round.committed && round.number <= escalated.after_round) incumbent_points = points_of(*round.last().evaluated);
  }
  constexpr std::string_view kPrefix = "best_known ", kTakes = " takes ";
  for (const auto& [name, speed_of_peer] : escalated.figures) {
    if (!name.starts_with(kPrefix) || !(speed_of_peer > 0)) continue;
    record::ReportPeer peer{"the best known implementation", name.substr(kPrefix.size()), kNan, kNan, {}, {}};
    for (const auto& point : incumbent_points) {
      if (point.label == peer.label) peer.latency = point.latency / speed_of_peer;
    }
    for (const std::string& finding : escalated.findings) {
      const std::size_t takes = finding.find(kTakes);
      const std::size_t start = peer.label.size() + 2;
      if (!finding.starts_with(peer.label + ": ") || takes == std::string::npos || takes <= start) continue;
      peer.name = finding.substr(start, takes - start);
    }
    peers_[peer.label] = std::move(peer);
  }
}

// Shapes before the baseline exists come from the specification: labels only.
void Drawing::fill_shapes() {
  if (model_.shapes.empty()) {
    for (const auto& target : model_.spec.target_cases) {
      record::ReportShape shape;
      shape.label = target.label();
      shape.intensity = shape.bound_time = shape.baseline_latency = shape.best_latency = shape.noise = kNan;
      model_.shapes.push_back(std::move(shape));
    }
  }
  for (std::size_t i = 0; i < model_.shapes.size(); ++i) {
    auto& shape = model_.shapes[i];
    shape.key = shape_key(i);
    const auto& chosen = model_.spec.representative_labels;
    shape.representative = std::find(chosen.begin(), chosen.end(), shape.label) != chosen.end();
    for (const auto& point : best_roofline_) {
      if (point.label != shape.label) continue;
      shape.best_latency = point.latency;
      if (point.value) shape.best_value = point.value;
    }
    if (const std::optional<double> initial = metric_value(final_sessions_, shape.label, record::Arm::kIncumbent)) {
      shape.baseline_value = initial;
      shape.best_value = metric_value(final_sessions_, shape.label, record::Arm::kCandidate);
    }
    if (final_initial_.contains(shape.label) && std::isfinite(final_initial_[shape.label])) {
      shape.baseline_latency = final_initial_[shape.label];
      shape.best_latency = final_best_[shape.label];
    }
    shape.last = find_effect(last_accepted_effects_, shape.label);
    shape.total = find_effect(final_effects_, shape.label);
    if (!shape.total && model_.accepted > 0 && shape_chain_.contains(shape.label)) {
      shape.total = shape_chain_[shape.label].effect(shape.label);
    }
  }
}

void Drawing::fill_total() {
  model_.total = find_effect(final_effects_, "suite");
  model_.total_source = model_.total ? "final" : "none";
  if (!model_.total && model_.accepted > 0) {
    model_.total = suite_.effect("suite");
    model_.total_source = "product";
  }
  const auto rounds_in = [&](record::RoundState state) {
    return std::count_if(model_.rounds.begin(), model_.rounds.end(),
                         [&](const auto& round) { return round.state == state; });
  };
  model_.rolled_back = rounds_in(record::RoundState::kRolledBack);
  model_.not_settled = rounds_in(record::RoundState::kNotSettled);
  model_.not_measured = rounds_in(record::RoundState::kNotMeasured);
}

// The command is of the last build of that kernel which the journal holds.
void Drawing::fill_best() {
  const auto describe = [&](const std::optional<record::ReportTrial>& trial) {
    if (!trial || trial->candidate != model_.best_id || trial->build.command.empty()) return;
    model_.best.command = trial->build.command;
    model_.best.compiler = trial->build.compiler;
  };
  const record::Candidate& best = state_.baseline ? state_.incumbent.candidate : state_.created->baseline;
  model_.best.name = best.name;
  if (!best.sources.empty()) model_.best.path = best.sources.front().path;
  model_.best.defines = best.defines;
  describe(model_.baseline);
  for (const auto& round : model_.rounds) {
    for (const auto& trial : round.trials) describe(trial);
  }
  describe(model_.final_trial);
}

void Drawing::fill_peers() {
  for (const auto& shape : model_.shapes) {
    if (const auto paired = final_peers_.find(shape.label); paired != final_peers_.end()) {
      model_.peers.push_back(paired->second);
      continue;
    }
    const auto found = peers_.find(shape.label);
    if (found == peers_.end() || !(found->second.latency > 0) || !(shape.best_latency > 0)) continue;
    found->second.ratio = found->second.latency / shape.best_latency;
    model_.peers.push_back(found->second);
  }
}

// In the order of the work; what remains is the engine itself.
void Drawing::fill_time() {
  for (const record::ReportRound& round : model_.rounds) model_.cpu_seconds += round.cpu_seconds;
  for (const journal::CostRow& row : state_.costs) add_usage(model_.usage, row.usage);
  double rest = model_.active_seconds;
  for (const char* activity : {"measure", "prepare and verify", "check", "build", "screen sweeps",
                               "measure the ceilings", "propose", "worker start-up and transfer"}) {
    const auto found = spent_.find(activity);
    if (found == spent_.end()) continue;
    model_.time.push_back({activity, found->second});
    rest -= found->second;
    spent_.erase(found);
  }
  for (const auto& [activity, seconds] : spent_) {
    model_.time.push_back({activity, seconds});
    rest -= seconds;
  }
  if (rest > 0) model_.time.push_back({"engine", rest});
}

void Drawing::fill_state() {
  model_.state = state_.terminated() ? "finished"
                 : state_.paused     ? "paused"
                 : state_.baseline   ? "running"
                 : state_.prepared   ? "prepared"
                 : state_.confirmed  ? "confirmed"
                                     : "created";
  model_.detail = state_words(model_, state_.paused.value_or(""));
  if (model_.state != "paused") return;
  for (auto& round : model_.rounds) {
    if (round.state == record::RoundState::kUnfinished && !round.decision)
      round.reason = "The campaign was paused before this round was decided.";
  }
}

Model Drawing::model(std::size_t torn_bytes) {
  model_.torn_bytes = static_cast<std::int64_t>(torn_bytes);
  model_.events = state_.events;
  model_.first_time = state_.created_at;
  model_.last_time = state_.updated_at;
  model_.active_seconds = state_.active;
  model_.journal_head = state_.last_hash;
  model_.decisions = state_.decisions_used;
  model_.product_of_accepted = state_.product_of_accepted;
  model_.termination = state_.termination;
  model_.escalations = state_.escalations;
  model_.open_directions = journal::open_directions(state_);
  for (const auto& [rule, waived] : state_.waivers) model_.waivers.push_back(waived);
  if (state_.reported) model_.rules = state_.reported->rules;
  spend("propose", state_.proposing);
  draw_start();
  if (state_.baseline) draw_baseline();
  for (const Round& round : state_.rounds) draw_round(round);
  if (!state_.rounds.empty()) best_roofline_ = state_.incumbent.roofline;
  draw_notes();
  draw_timeline();
  for (const record::Escalated& escalated : state_.escalations) take_known(escalated);
  // An earlier end is part of what the campaign took, and no longer of what it came to.
  const std::vector<double> final_seconds = seconds_of(EventKind::kFinal);
  const std::vector<double> replica_seconds = seconds_of(EventKind::kReplicated);
  std::size_t replicas = 0;
  for (std::size_t i = 0; i < state_.endings.size(); ++i) {
    trial(state_.endings[i].final_measurement.evaluation, "final", final_seconds[i]);
    if (state_.endings[i].replicated)
      trial(state_.endings[i].replicated->evaluation, "replica", replica_seconds[replicas++]);
  }
  if (state_.final_measurement) draw_final(*state_.final_measurement, final_seconds.back());
  if (state_.replicated) draw_replica(*state_.final_measurement, *state_.replicated, replica_seconds.back());
  fill_shapes();
  fill_total();
  fill_best();
  fill_peers();
  fill_time();
  fill_state();
  return std::move(model_);
}

}  // namespace

Model draw(const journal::State& state, std::size_t torn_bytes) {
  if (state.created) return Drawing(state).model(torn_bytes);
  Model empty;
  empty.state = "empty";
  empty.torn_bytes = static_cast<std::int64_t>(torn_bytes);
  empty.detail = state_words(empty, "");
  return empty;
}

Result<Model> fold(std::span<const record::Event> events, std::size_t torn_bytes) {
  RIDGE_TRY(state, journal::fold(events));
  return draw(state, torn_bytes);
}

Result<Model> load(const std::filesystem::path& campaign) {
  Result<record::JournalText> journal = record::read_journal(campaign / "journal.jsonl");
  if (!journal && journal.error().code == ErrorCode::kNotFound) {
    return with_hint(make_error(ErrorCode::kNotFound, "{} holds no campaign", campaign.string()),
                     "start one with `ridge optimize OP`, or name the folder of an existing one");
  }
  if (!journal) return journal.error();
  return fold(journal->events, journal->torn_bytes);
}

}  // namespace ridge::report
