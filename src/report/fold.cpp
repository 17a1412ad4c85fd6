// Folds the events of a journal into the report's model.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include <fmt/ranges.h>

#include "base/error.h"
#include "record/json.h"
#include "report/diff.h"
#include "report/ratios.h"
#include "report/report.h"
#include "report/words.h"

namespace ridge::report {
namespace {

using record::Effect;
using record::Event;
using record::EventKind;

// Of a round that was not accepted: only what says something about the candidate counts as rolled back.
std::string closed_state(record::Outcome outcome) { return settles(outcome) ? "rolled back" : "not settled"; }

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

// Effects as the engine decided on them; from the raw sessions when it stored none.
std::vector<Effect> effects_of(const std::vector<Effect>& recorded, const record::ReportTrial& trial,
                               std::string_view role) {
  if (!recorded.empty()) return recorded;
  std::vector<Effect> effects;
  const std::vector<double> suite = suite_log_ratios(trial, role);
  if (suite.empty()) return effects;
  effects.push_back(effect_of("suite", suite));
  for (const auto& point : trial.roofline) {
    const std::vector<double> ratios = shape_log_ratios(trial, role, point.label);
    if (!ratios.empty()) effects.push_back(effect_of(point.label, ratios));
  }
  return effects;
}

std::optional<Effect> find_effect(const std::vector<Effect>& effects, std::string_view label) {
  for (const Effect& effect : effects) {
    if (effect.label == label && usable(effect)) return effect;
  }
  return std::nullopt;
}

class Fold {
 public:
  Status take(const Event& event);
  Model finish(std::size_t torn_bytes);

 private:
  template <class T>
  static Result<T> payload(const Event& event) {
    return record::from_json<T>(event.payload,
                                fmt::format("event {} ({})", event.sequence, record::name_of(event.kind)));
  }
  record::ReportRound& round(std::int64_t number, const Event& event);
  record::ReportTrial trial(const record::Evaluation& evaluation, std::string level, double outer_seconds);

  void on(const record::Created& created);
  void on(const record::Prepared& prepared, double seconds);
  void on(const record::Baseline& baseline, double seconds);
  void on(const record::Proposed& proposed, const Event& event);
  void on(const record::Screened& screened, const Event& event);
  void on(const record::Evaluated& evaluated, const Event& event);
  void on(const record::Decision& decision, const Event& event);
  void on(const record::Calibrated& calibrated, const Event& event, double seconds);
  void on(const record::Committed& committed, const Event& event);
  void on(const record::RolledBack& rolled_back, const Event& event);
  void on(const record::Final& final_event, double seconds);
  void on(const record::Escalated& escalated);
  Status dispatch(const Event& event, double seconds);

  void describe_change(record::ReportRound& round, const record::Candidate& candidate) const;
  void spend(const std::string& activity, double seconds);
  void spend_sessions(const std::vector<record::Session>& sessions, double seconds);
  void note(const Event& event, std::string text);
  void take_refused(record::ReportRound& round);
  void reopen();
  void fill_shapes();
  void fill_total();
  void fill_best();
  void take_peers(const std::vector<record::BenchRow>& rows);
  void fill_peers();
  void fill_time();
  void fill_state();

  Model model_;
  record::TuneSpace space_;
  record::Candidate incumbent_;
  std::map<std::string, record::Candidate> candidates_;
  Chain suite_;                               // of the accepted rounds so far
  std::map<std::string, Chain> shape_chain_;  // the same per shape
  std::map<std::string, double> spent_;
  std::vector<Effect> final_effects_, last_accepted_effects_;
  std::map<std::string, double> final_initial_, final_best_;  // median latencies in the final sessions
  std::vector<record::RooflinePoint> best_roofline_;
  std::string pause_;
  std::vector<std::string> refused_;                       // not yet counted to a round
  std::map<std::string, record::ReportPeer> peers_;        // of the escalations, the latest, by label
  std::map<std::string, record::ReportPeer> final_peers_;  // in turns with the best kernel, by label
};

record::ReportRound& Fold::round(std::int64_t number, const Event& event) {
  for (auto& existing : model_.rounds) {
    if (existing.round == number) return existing;
  }
  record::ReportRound fresh;
  fresh.round = number;
  fresh.started = event.time;
  fresh.speed = fresh.low = fresh.high = kNan;
  fresh.reason = "The round has not been decided yet.";
  return model_.rounds.emplace_back(std::move(fresh));
}

void Fold::spend(const std::string& activity, double seconds) {
  if (std::isfinite(seconds) && seconds > 0) spent_[activity] += seconds;
}

// Of a session only the launches that were timed are timing; the rest is what makes them trustworthy.
void Fold::spend_sessions(const std::vector<record::Session>& sessions, double seconds) {
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

void Fold::note(const Event& event, std::string text) {
  model_.notes.push_back({event.time, std::string(record::name_of(event.kind)), std::move(text)});
}

void Fold::take_refused(record::ReportRound& target) {
  target.refused.insert(target.refused.end(), refused_.begin(), refused_.end());
  refused_.clear();
}

// Reduces raw samples to ratios and counts them; what the worker does not itemise is its start-up.
record::ReportTrial Fold::trial(const record::Evaluation& evaluation, std::string level, double outer_seconds) {
  const auto& bounds = evaluation.roofline.empty() ? best_roofline_ : evaluation.roofline;
  record::ReportTrial trial{std::move(level),
                            evaluation.candidate,
                            evaluation.incumbent,
                            evaluation.outcome,
                            evaluation.detail,
                            evaluation.build,
                            evaluation.checks,
                            {},
                            measured_points(bounds, evaluation.sessions),
                            evaluation.seconds};
  for (const auto& session : evaluation.sessions) {
    trial.sessions.push_back(reduce(session));
    model_.launches += trial.sessions.back().launches;
    model_.sessions += 1;
    model_.voided_sessions += session.voided ? 1 : 0;
  }
  for (const auto& check : evaluation.checks) model_.verified_calls += check.verified_calls;
  double itemised = 0;
  for (const auto& [activity, seconds] : evaluation.seconds) {
    activity == "measure" ? spend_sessions(evaluation.sessions, seconds) : spend(activity, seconds);
    itemised += seconds;
  }
  spend("worker start-up and transfer", outer_seconds - itemised);
  return trial;
}

void Fold::on(const record::Created& created) {
  model_.spec = created.spec;
  incumbent_ = created.baseline;
  model_.baseline_id = model_.best_id = incumbent_.id();
  model_.baseline_name = incumbent_.name;
  model_.lineage = {{1, model_.baseline_id, "", "baseline: " + incumbent_.name, "", "", std::nullopt, 1.0}};
}

void Fold::on(const record::Prepared& prepared, double seconds) {
  model_.environment = prepared.environment;
  model_.ceilings = prepared.ceilings;
  model_.frozen = prepared.frozen;
  model_.branch = prepared.branch;
  model_.base_commit = prepared.base_commit;
  spend("measure the ceilings", seconds);
}

void Fold::on(const record::Baseline& baseline, double seconds) {
  incumbent_ = baseline.candidate;
  space_ = baseline.space;
  model_.baseline_id = model_.best_id = incumbent_.id();
  model_.baseline_name = incumbent_.name;
  model_.lineage = {{1, model_.baseline_id, "", "baseline: " + incumbent_.name, "", "", std::nullopt, 1.0}};
  model_.noise = baseline.calibration.noise;
  model_.detectable = baseline.calibration.detectable;
  model_.baseline = trial(baseline.evaluation, "baseline", seconds);
  model_.spec.representative_labels = baseline.representative_labels;
  best_roofline_ = model_.baseline->roofline;
  for (std::size_t i = 0; i < best_roofline_.size(); ++i) {
    const auto& point = best_roofline_[i];
    record::ReportShape shape;
    shape.label = point.label;
    const std::vector<double>& noise = baseline.calibration.noise_by_shape;
    shape.noise = i < noise.size() ? noise[i] : kNan;
    shape.cost = point.cost;
    shape.intensity = point.intensity;
    shape.bound_time = point.bound_time;
    shape.bound = point.bound;
    shape.baseline_latency = shape.best_latency = point.latency;
    model_.shapes.push_back(std::move(shape));
  }
}

void Fold::on(const record::Proposed& proposed, const Event& event) {
  spend("propose", proposed.seconds);
  if (proposed.refused.empty() && proposed.proposal.exhausted) {
    note(event, "The proposer has nothing left to try: " + proposed.proposal.reason);
    return;
  }
  if (!proposed.refused.empty()) {
    const std::string& title = proposed.proposal.hypothesis.title;
    refused_.push_back(title.empty() ? proposed.refused : fmt::format("\"{}\": {}", title, proposed.refused));
    return;
  }
  auto& target = round(proposed.round, event);
  target.hypothesis = proposed.proposal.hypothesis;
  take_refused(target);
  target.propose_seconds += proposed.seconds;
  for (const auto& candidate : proposed.proposal.candidates) candidates_[candidate.id()] = candidate;
}

void Fold::on(const record::Screened& screened, const Event& event) {
  auto& target = round(screened.round, event);
  target.sweep = screened.rows;
  target.chosen = screened.chosen;
  target.screen_seconds += screened.seconds;
  spend("screen sweeps", screened.seconds);
}

// A define that is left out has the tunable's default value.
void Fold::describe_change(record::ReportRound& target, const record::Candidate& candidate) const {
  const auto value_in = [](const record::Candidate& c, const std::string& name, std::int64_t fallback) {
    const auto found = c.defines.find(name);
    return found == c.defines.end() ? fallback : found->second;
  };
  target.changed.clear();
  target.changes.clear();
  for (const auto& tunable : space_.tunables) {
    const std::int64_t before = value_in(incumbent_, tunable.name, tunable.default_value);
    const std::int64_t after = value_in(candidate, tunable.name, tunable.default_value);
    if (before == after) continue;
    target.changed[tunable.name] = after;
    target.changes.push_back({tunable.name, before, after, tunable.title});
  }
  for (const auto& [name, value] : candidate.defines) {
    const auto declared = std::any_of(space_.tunables.begin(), space_.tunables.end(),
                                      [&name = name](const auto& tunable) { return tunable.name == name; });
    const auto before = incumbent_.defines.find(name);
    if (declared || (before != incumbent_.defines.end() && before->second == value)) continue;
    target.changed[name] = value;
    if (before != incumbent_.defines.end()) target.changes.push_back({name, before->second, value, ""});
  }
  target.changed_files.clear();
  for (const auto& file : candidate.sources) {
    if (std::find(incumbent_.sources.begin(), incumbent_.sources.end(), file) == incumbent_.sources.end()) {
      target.changed_files.push_back(file.path);
    }
  }
  target.source_diff = source_diff(incumbent_.sources, candidate.sources);
}

void Fold::on(const record::Evaluated& evaluated, const Event& event) {
  auto& target = round(evaluated.round, event);
  target.candidate = evaluated.candidate.id();
  target.candidate_name = evaluated.candidate.name;
  target.parent = evaluated.candidate.parent.empty() ? model_.best_id : evaluated.candidate.parent;
  target.outcome = evaluated.evaluation.outcome;
  target.evaluate_seconds += evaluated.seconds;
  candidates_[target.candidate] = evaluated.candidate;
  describe_change(target, evaluated.candidate);
  target.trials.push_back(trial(evaluated.evaluation, evaluated.level, evaluated.seconds));
  const std::vector<double> screening = suite_log_ratios(target.trials.back(), "screen");
  if (!screening.empty()) target.screened = std::exp(screening.back());
}

void Fold::on(const record::Decision& decision, const Event& event) {
  auto& target = round(decision.round, event);
  target.decision = decision;
  target.outcome = decision.outcome;
  target.reason = decision.reason;
  target.state = decision.accepted ? "unfinished" : closed_state(decision.outcome);
  if (decision.accepted)
    target.reason += " (Accepted, but not committed: an accepted round counts once it is committed.)";
  take_refused(target);
  if (target.trials.empty()) return;
  target.decision->effects = effects_of(decision.effects, target.trials.back(), "confirm");
  if (!suite_log_ratios(target.trials.back(), "confirm").empty()) {
    model_.decisions += target.trials.back().level == "quick" ? 0 : 1;  // a quick look can only reject
    target.measured = find_effect(target.decision->effects, "suite");
  }
  if (!target.measured) {
    if (target.screened) target.speed = *target.screened * std::exp(suite_.log_ratio);
    return;
  }
  const Effect reached = suite_.times(*target.measured).effect("suite");
  target.speed = reached.ratio;
  target.low = reached.low;
  target.high = reached.high;
}

void Fold::on(const record::Calibrated& calibrated, const Event& event, double seconds) {
  double measured = 0;
  for (const auto& session : calibrated.sessions) {
    model_.launches += reduce(session).launches;
    model_.sessions += 1;
    model_.voided_sessions += session.voided ? 1 : 0;
    const auto wall = session.guards.find("wall");
    if (wall != session.guards.end()) measured += wall->second;
  }
  spend_sessions(calibrated.sessions, measured);
  spend("worker start-up and transfer", seconds - measured);
  note(event, "The incumbent was measured against itself: " + calibrated.calibration.reason + ".");
}

void Fold::on(const record::Committed& committed, const Event& event) {
  if (committed.round <= 1) {  // the baseline's own snapshot
    if (model_.lineage.empty()) return;
    model_.lineage.front().snapshot = committed.snapshot;
    model_.lineage.front().commit = committed.commit;
    return;
  }
  auto& target = round(committed.round, event);
  target.state = "accepted";
  target.snapshot = committed.snapshot;
  target.commit = committed.commit;
  if (target.decision) target.reason = target.decision->reason;
  model_.accepted += 1;
  model_.best_id = target.candidate;
  if (const auto found = candidates_.find(target.candidate); found != candidates_.end()) incumbent_ = found->second;
  if (target.decision) {
    last_accepted_effects_ = target.decision->effects;
    if (target.measured) suite_ = suite_.times(*target.measured);
    for (const Effect& effect : last_accepted_effects_) {
      if (usable(effect)) shape_chain_[effect.label] = shape_chain_[effect.label].times(effect);
    }
  }
  if (!target.trials.empty()) best_roofline_ = target.trials.back().roofline;
  model_.lineage.push_back({target.round, target.candidate, target.parent, target.hypothesis.title, committed.snapshot,
                            committed.commit, target.measured, std::exp(suite_.log_ratio)});
}

void Fold::on(const record::RolledBack& rolled_back, const Event& event) {
  auto& target = round(rolled_back.round, event);
  target.state = target.decision ? closed_state(target.decision->outcome) : "rolled back";
  target.snapshot = rolled_back.snapshot;
  if (!target.decision) target.reason = "Rolled back before a decision.";
  if (target.decision && target.decision->accepted) {
    target.reason = target.decision->reason + " It was rolled back all the same: the commit did not succeed.";
  }
}

void Fold::on(const record::Final& final_event, double seconds) {
  model_.final_trial = trial(final_event.evaluation, "final", seconds);
  std::string_view role = "final";
  if (suite_log_ratios(*model_.final_trial, role).empty()) role = "confirm";
  final_effects_ = effects_of(final_event.effects, *model_.final_trial, role);
  model_.product_of_accepted = final_event.product_of_accepted;
  best_roofline_ = model_.final_trial->roofline;
  for (const auto& point : best_roofline_) {
    final_initial_[point.label] = arm_latency(final_event.evaluation.sessions, point.label, record::Arm::kIncumbent);
    final_best_[point.label] = arm_latency(final_event.evaluation.sessions, point.label, record::Arm::kCandidate);
  }
  take_peers(final_event.peers);
}

// The fastest implementation of each shape, from the runs in turns with the best kernel.
void Fold::take_peers(const std::vector<record::BenchRow>& rows) {
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
void Fold::on(const record::Escalated& escalated) {
  constexpr std::string_view kPrefix = "best_known ", kTakes = " takes ";
  for (const auto& [name, speed_of_peer] : escalated.figures) {
    if (!name.starts_with(kPrefix) || !(speed_of_peer > 0)) continue;
    record::ReportPeer peer{"the best known implementation", name.substr(kPrefix.size()), kNan, kNan, {}, {}};
    for (const auto& point : best_roofline_) {
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
  model_.escalations.push_back(escalated);
}

Status Fold::dispatch(const Event& event, double seconds) {
  switch (event.kind) {
    case EventKind::kCreated: {
      RIDGE_TRY(created, payload<record::Created>(event));
      on(created);
      model_.state = "created";
      break;
    }
    case EventKind::kConfirmed: {
      RIDGE_TRY(confirmed, payload<record::Confirmed>(event));
      model_.confirmed_by = confirmed.by;
      model_.state = "confirmed";
      break;
    }
    case EventKind::kPrepared: {
      RIDGE_TRY(prepared, payload<record::Prepared>(event));
      on(prepared, seconds);
      model_.state = "prepared";
      break;
    }
    case EventKind::kTipsRead: {
      RIDGE_TRY(tips, payload<record::TipsRead>(event));
      model_.tips = static_cast<std::int64_t>(tips.tips.size());
      break;
    }
    case EventKind::kBaseline: {
      RIDGE_TRY(baseline, payload<record::Baseline>(event));
      on(baseline, seconds);
      model_.state = "running";
      break;
    }
    case EventKind::kProposed: {
      RIDGE_TRY(proposed, payload<record::Proposed>(event));
      on(proposed, event);
      break;
    }
    case EventKind::kScreened: {
      RIDGE_TRY(screened, payload<record::Screened>(event));
      on(screened, event);
      break;
    }
    case EventKind::kEvaluated: {
      RIDGE_TRY(evaluated, payload<record::Evaluated>(event));
      on(evaluated, event);
      break;
    }
    case EventKind::kDecided: {
      RIDGE_TRY(decision, payload<record::Decision>(event));
      on(decision, event);
      break;
    }
    case EventKind::kCalibrated: {
      RIDGE_TRY(calibrated, payload<record::Calibrated>(event));
      on(calibrated, event, seconds);
      break;
    }
    case EventKind::kCommitted: {
      RIDGE_TRY(committed, payload<record::Committed>(event));
      on(committed, event);
      break;
    }
    case EventKind::kRolledBack: {
      RIDGE_TRY(rolled_back, payload<record::RolledBack>(event));
      on(rolled_back, event);
      break;
    }
    case EventKind::kTermination: {
      RIDGE_TRY(termination, payload<record::Termination>(event));
      model_.termination = termination;
      break;
    }
    case EventKind::kFinal: {
      RIDGE_TRY(final_event, payload<record::Final>(event));
      on(final_event, seconds);
      break;
    }
    case EventKind::kPaused: {
      RIDGE_TRY(paused, payload<record::Note>(event));
      pause_ = paused.text;
      note(event, paused.text);
      model_.state = "paused";
      break;
    }
    case EventKind::kResumed: {
      RIDGE_TRY(resumed, payload<record::Note>(event));
      note(event, resumed.text);
      if (model_.state == "paused") model_.state = model_.baseline ? "running" : "prepared";
      break;
    }
    case EventKind::kBudget: {
      RIDGE_TRY(budget, payload<record::BudgetChange>(event));
      note(event, budget_words(budget));
      reopen();
      break;
    }
    case EventKind::kWaived: {
      RIDGE_TRY(waived, payload<record::Waived>(event));
      note(event, fmt::format("rule {} waived by {}: {}", waived.rule, waived.by, waived.reason));
      model_.waivers.push_back(waived);
      break;
    }
    case EventKind::kEscalated: {
      RIDGE_TRY(escalated, payload<record::Escalated>(event));
      on(escalated);
      break;
    }
    case EventKind::kMasked: {
      RIDGE_TRY(masked, payload<record::Masked>(event));
      note(event, masked.versions.empty() ? std::string("every memory record is shown")
                                          : fmt::format("memory masked: {}", fmt::join(masked.versions, " ")));
      break;
    }
    case EventKind::kReported: {
      RIDGE_TRY(reported, payload<record::Reported>(event));
      model_.rules = reported.rules;
      break;
    }
    case EventKind::kIntent: break;
  }
  return ok_status();
}

Status Fold::take(const Event& event) {
  const double seconds = event.active - model_.active_seconds;
  if (model_.events == 0) model_.first_time = event.time;
  model_.events += 1;
  model_.last_time = event.time;
  model_.active_seconds = event.active;
  model_.journal_head = event.hash;
  return dispatch(event, seconds);
}

// More budget reopens a campaign that had ended.
void Fold::reopen() {
  model_.termination.reset();
  model_.final_trial.reset();
  final_effects_.clear();
  final_initial_.clear();
  final_best_.clear();
}

// Shapes before the baseline exists come from the specification: labels only.
void Fold::fill_shapes() {
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
      if (point.label == shape.label) shape.best_latency = point.latency;
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

void Fold::fill_total() {
  model_.total = find_effect(final_effects_, "suite");
  model_.total_source = model_.total ? "final" : "none";
  if (!model_.total && model_.accepted > 0) {
    model_.total = suite_.effect("suite");
    model_.total_source = "product";
  }
  if (!model_.final_trial) model_.product_of_accepted = std::exp(suite_.log_ratio);
  const auto rounds_in = [&](std::string_view state) {
    return std::count_if(model_.rounds.begin(), model_.rounds.end(),
                         [&](const auto& round) { return round.state == state; });
  };
  model_.rolled_back = rounds_in("rolled back");
  model_.not_settled = rounds_in("not settled");
}

// The command is of the last build of that kernel which the journal holds.
void Fold::fill_best() {
  const auto describe = [&](const std::optional<record::ReportTrial>& trial) {
    if (!trial || trial->candidate != model_.best_id || trial->build.command.empty()) return;
    model_.best.command = trial->build.command;
    model_.best.compiler = trial->build.compiler;
  };
  model_.best.name = incumbent_.name;
  if (!incumbent_.sources.empty()) model_.best.path = incumbent_.sources.front().path;
  model_.best.defines = incumbent_.defines;
  describe(model_.baseline);
  for (const auto& round : model_.rounds) {
    for (const auto& trial : round.trials) describe(trial);
  }
  describe(model_.final_trial);
}

void Fold::fill_peers() {
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
void Fold::fill_time() {
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

void Fold::fill_state() {
  const bool ended = model_.termination && model_.termination->condition != "none";
  if (ended) model_.state = "finished";
  if (model_.events == 0) model_.state = "empty";
  model_.detail = state_words(model_, pause_);
  if (model_.state != "paused") return;
  for (auto& round : model_.rounds) {
    if (round.state == "unfinished" && !round.decision)
      round.reason = "The campaign was paused before this round was decided.";
  }
}

Model Fold::finish(std::size_t torn_bytes) {
  model_.torn_bytes = static_cast<std::int64_t>(torn_bytes);
  for (const std::string& text : refused_) model_.notes.push_back({model_.last_time, "refused", text});
  fill_shapes();
  fill_total();
  fill_best();
  fill_peers();
  fill_time();
  fill_state();
  return std::move(model_);
}

}  // namespace

Result<Model> fold(std::span<const Event> events, std::size_t torn_bytes) {
  Fold state;
  for (const Event& event : events) RIDGE_CHECK_OK(state.take(event));
  return state.finish(torn_bytes);
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
