#include "journal/fold.h"

#include <utility>

#include "base/error.h"
#include "journal/samples.h"
#include "record/json.h"

namespace ridge::journal {
namespace {

using record::Event;
using record::EventKind;

Error impossible(const Event& event, std::string_view why) {
  return with_hint(make_error(ErrorCode::kCorrupt, "journal line {}: a \"{}\" event cannot stand here: {}",
                              event.sequence + 1, record::name_of(event.kind), why),
                   "the journal was not written by one campaign; restore it from a copy");
}

template <class T>
Result<T> payload(const Event& event) {
  Result<T> read = record::from_json<T>(event.payload, std::string(record::name_of(event.kind)));
  if (!read) return in_context(fmt::format("journal line {}", event.sequence + 1), read.error());
  return read;
}

Round* open_round(State& state) {
  return state.rounds.empty() || state.rounds.back().closed() ? nullptr : &state.rounds.back();
}

// The round that a payload speaks of, which must be the open one.
Result<Round*> round_of(State& state, const Event& event, std::int64_t number) {
  Round* round = open_round(state);
  if (round == nullptr) return impossible(event, "no round is open");
  if (round->number != number) {
    return impossible(event, fmt::format("it speaks of round {}, open is round {}", number, round->number));
  }
  return round;
}

void close_round(State& state, Round& round, const Event& event) {
  round.closed_at = event.time;
  round.closed_active = event.active;
  state.checked = false;
}

Status on_created(State& state, const Event& event) {
  if (state.confirmed) return impossible(event, "the manifest is already confirmed");
  RIDGE_TRY(created, payload<record::Created>(event));
  state.created_at = event.time;
  state.wall_budget = created.spec.wall_budget;
  state.max_iterations = created.spec.max_iterations;
  state.created = std::move(created);
  return ok_status();
}

Status on_prepared(State& state, const Event& event) {
  if (!state.confirmed) return impossible(event, "the manifest is not confirmed");
  RIDGE_TRY(prepared, payload<record::Prepared>(event));
  state.prepared = std::move(prepared);
  return ok_status();
}

void take_calibration(State& state, const record::Calibration& calibration) {
  state.calibration = calibration;
  state.calibrated_decisions = state.decisions_used;
  state.calibrated_launch = launch_seconds(state.incumbent.roofline);
}

Status on_calibrated(State& state, const Event& event) {
  if (!state.baseline_committed || open_round(state) != nullptr) {
    return impossible(event, "the machine is calibrated between rounds");
  }
  RIDGE_TRY(calibrated, payload<record::Calibrated>(event));
  if (calibrated.candidate != state.incumbent.candidate.id()) return impossible(event, "it is not of the incumbent");
  if (fair(calibrated.calibration)) take_calibration(state, calibrated.calibration);
  state.occurrences.push_back({event.time, event.kind, std::move(calibrated)});
  return ok_status();
}

Status on_baseline(State& state, const Event& event) {
  if (!state.prepared || state.baseline) return impossible(event, "it is measured once, after preparing");
  RIDGE_TRY(baseline, payload<record::Baseline>(event));
  state.incumbent.candidate = baseline.candidate;
  state.incumbent.build = baseline.evaluation.build;
  state.incumbent.roofline = measured_roofline(baseline.evaluation.roofline, baseline.evaluation.sessions);
  take_calibration(state, baseline.calibration);
  state.baseline = std::move(baseline);
  state.baseline_at = event.time;
  state.baseline_active = event.active;
  return ok_status();
}

Status on_refused(State& state, record::Proposed answer) {
  ++state.failures_in_a_row;
  if (Round* round = open_round(state)) {
    round->refused.push_back(std::move(answer));
    round->refused_retry = true;
  } else {
    state.refused.push_back(std::move(answer));
  }
  return ok_status();
}

Status on_proposed(State& state, const Event& event) {
  if (!state.baseline_committed) return impossible(event, "the baseline is not committed");
  RIDGE_TRY(answer, payload<record::Proposed>(event));
  Round* round = open_round(state);
  const std::int64_t expected = round != nullptr ? round->number : state.next_round();
  if (answer.round != expected) {
    return impossible(event, fmt::format("it speaks of round {}, due is round {}", answer.round, expected));
  }
  state.proposing += answer.seconds;
  state.usage = answer.proposal.usage;
  if (!answer.refused.empty()) return on_refused(state, std::move(answer));
  state.failures_in_a_row = 0;
  if (answer.proposal.exhausted) {
    state.occurrences.push_back({event.time, event.kind, record::Note{answer.proposal.reason}});
    if (round != nullptr) {
      round->refused_retry = true;
      round->refused.push_back(std::move(answer));
    } else {
      state.exhausted = answer.proposal.reason;
      state.checked = false;
    }
    return ok_status();
  }
  if (round == nullptr) {
    round = &state.rounds.emplace_back();
    round->number = expected;
    round->incumbent = state.incumbent.candidate;
    round->incumbent_round = state.incumbent.round;
    round->refused = std::exchange(state.refused, {});
    round->opened = event.time;
    round->hidden = {state.masked.rounds.begin(), state.masked.rounds.end()};
    round->opened_active = event.active - answer.seconds;
  }
  if (round->decision) return impossible(event, "the round is already decided");
  if (answer.proposer.empty()) answer.proposer = state.spec().proposer;
  round->attempts.push_back({std::move(answer.proposal), {}, {}, {}, answer.seconds, std::move(answer.proposer)});
  return ok_status();
}

Status on_screened(State& state, const Event& event) {
  RIDGE_TRY(screened, payload<record::Screened>(event));
  RIDGE_TRY(round, round_of(state, event, screened.round));
  if (round->attempts.back().screened) return impossible(event, "the sweep is already screened");
  round->attempts.back().screened = std::move(screened);
  return ok_status();
}

Status on_evaluated(State& state, const Event& event) {
  RIDGE_TRY(evaluated, payload<record::Evaluated>(event));
  RIDGE_TRY(round, round_of(state, event, evaluated.round));
  Attempt& attempt = round->attempts.back();
  const bool after_quick = attempt.evaluated && attempt.evaluated->level == "quick" && evaluated.level == "full";
  if ((attempt.evaluated && !after_quick) || round->decision) {
    return impossible(event, "the candidate is already evaluated");
  }
  if (after_quick) attempt.quick = std::move(attempt.evaluated);
  attempt.evaluated = std::move(evaluated);
  return ok_status();
}

Status on_decided(State& state, const Event& event) {
  RIDGE_TRY(decision, payload<record::Decision>(event));
  RIDGE_TRY(round, round_of(state, event, decision.round));
  if (round->decision) return impossible(event, "the round is already decided");
  // A quick look can only reject, so it takes no share of the chance of a false accept.
  const std::optional<record::Evaluated>& evaluated = round->last().evaluated;
  if (evaluated && evaluated->level == "full" && confirmation_count(evaluated->evaluation.sessions) > 0) {
    ++state.decisions_used;
  }
  round->decision = std::move(decision);
  const bool measured = round->state() != record::RoundState::kNotMeasured;
  state.unmeasured_in_a_row = measured ? 0 : state.unmeasured_in_a_row + 1;
  round->decided = event.time;
  return ok_status();
}

Status on_committed(State& state, const Event& event) {
  RIDGE_TRY(committed, payload<record::Committed>(event));
  if (committed.round == 1) {
    if (!state.baseline || state.baseline_committed) return impossible(event, "round 1 is committed once");
    state.incumbent.snapshot = committed.snapshot;
    state.incumbent.commit = committed.commit;
    state.baseline_committed = std::move(committed);
    return ok_status();
  }
  RIDGE_TRY(round, round_of(state, event, committed.round));
  const Attempt& attempt = round->last();
  if (!round->decision || !round->decision->accepted || !attempt.evaluated) {
    return impossible(event, "the round is not accepted");
  }
  const record::Evaluation& evaluation = attempt.evaluated->evaluation;
  state.incumbent = {attempt.evaluated->candidate,
                     round->number,
                     evaluation.build,
                     measured_roofline(state.baseline->evaluation.roofline, evaluation.sessions),
                     committed.snapshot,
                     committed.commit};
  if (!round->decision->effects.empty()) state.product_of_accepted *= round->decision->effects.front().ratio;
  round->committed = std::move(committed);
  close_round(state, *round, event);
  return ok_status();
}

Status on_rolled_back(State& state, const Event& event) {
  RIDGE_TRY(rolled_back, payload<record::RolledBack>(event));
  RIDGE_TRY(round, round_of(state, event, rolled_back.round));
  if (!round->decision || round->decision->accepted) return impossible(event, "the round is not rejected");
  round->rolled_back = std::move(rolled_back);
  close_round(state, *round, event);
  return ok_status();
}

Status on_termination(State& state, const Event& event) {
  if (!state.baseline_committed) return impossible(event, "the baseline is not committed");
  if (open_round(state) != nullptr) return impossible(event, "a round is open");
  RIDGE_TRY(termination, payload<record::Termination>(event));
  state.termination = std::move(termination);
  state.checked = true;
  return ok_status();
}

Status on_final(State& state, const Event& event) {
  if (!state.terminated()) return impossible(event, "no termination condition holds");
  RIDGE_TRY(final_measurement, payload<record::Final>(event));
  state.final_measurement = std::move(final_measurement);
  state.ended_at = event.time;
  return ok_status();
}

Status on_replicated(State& state, const Event& event) {
  if (!state.final_measurement) return impossible(event, "there is no final measurement");
  if (state.replicated || state.reported) return impossible(event, "it is measured once, before the report");
  RIDGE_TRY(replicated, payload<record::Replicated>(event));
  if (replicated.effects.empty() == replicated.note.empty())
    return impossible(event, "it has effects, or says why it has none");
  state.replicated = std::move(replicated);
  return ok_status();
}

Status on_budget(State& state, const Event& event) {
  RIDGE_TRY(change, payload<record::BudgetChange>(event));
  state.wall_budget = change.wall_budget;
  state.max_iterations = change.max_iterations;
  state.occurrences.push_back({event.time, event.kind, change});
  // More budget reopens a campaign that had ended.
  if (state.termination && state.final_measurement) {
    state.endings.push_back({state.ended_at, *state.termination, *state.final_measurement, state.rounds.size(),
                             state.escalations.size(), state.replicated});
  }
  state.checked = false;
  state.termination.reset();
  state.final_measurement.reset();
  state.replicated.reset();
  state.reported.reset();
  state.exhausted.reset();
  return ok_status();
}

Status on_confirmed(State& state, const Event& event) {
  if (!state.created) return impossible(event, "there is no manifest");
  RIDGE_TRY(confirmed, payload<record::Confirmed>(event));
  state.confirmed = std::move(confirmed);
  return ok_status();
}

Status on_tips(State& state, const Event& event) {
  RIDGE_TRY(tips, payload<record::TipsRead>(event));
  state.tips = std::move(tips);
  return ok_status();
}

Status on_waived(State& state, const Event& event) {
  RIDGE_TRY(waived, payload<record::Waived>(event));
  if (waived.reason.empty()) return impossible(event, "a waiver needs a reason");
  state.occurrences.push_back({event.time, event.kind, waived});
  state.waivers[waived.rule] = std::move(waived);
  return ok_status();
}

Status on_masked(State& state, const Event& event) {
  if (!state.baseline_committed) return impossible(event, "there is nothing to mask before the baseline");
  RIDGE_TRY(masked, payload<record::Masked>(event));
  for (const std::int64_t number : masked.rounds) {
    if (number < 2 || number > state.rounds_closed() + 1)
      return impossible(event, fmt::format("round {} is not closed", number));
  }
  state.occurrences.push_back({event.time, event.kind, masked});
  state.masked = std::move(masked);
  return ok_status();
}

Status on_escalated(State& state, const Event& event) {
  if (!state.baseline_committed) return impossible(event, "the baseline is not committed");
  if (open_round(state) != nullptr) return impossible(event, "a round is open");
  RIDGE_TRY(escalated, payload<record::Escalated>(event));
  state.escalations.push_back(std::move(escalated));
  return ok_status();
}

Status on_profiled(State& state, const Event& event) {
  if (!state.baseline_committed) return impossible(event, "the baseline is not committed");
  if (open_round(state) != nullptr) return impossible(event, "a round is open");
  RIDGE_TRY(profiled, payload<record::Profiled>(event));
  if (profiled.artifact != state.incumbent.build.artifact) return impossible(event, "it is not of the incumbent");
  if (profiled.report.has_value() != profiled.note.empty())
    return impossible(event, "it is a report, or says why there is none");
  state.profiles.push_back(std::move(profiled));
  return ok_status();
}

Status on_reported(State& state, const Event& event) {
  RIDGE_TRY(reported, payload<record::Reported>(event));
  state.reported = std::move(reported);
  return ok_status();
}

Status on_intent(State& state, const Event& event) {
  RIDGE_TRY(intent, payload<record::Intent>(event));
  state.intents.insert(intent.key);
  return ok_status();
}

Status on_paused(State& state, const Event& event) {
  RIDGE_TRY(note, payload<record::Note>(event));
  state.paused = note.text;
  state.occurrences.push_back({event.time, event.kind, std::move(note)});
  return ok_status();
}

Status on_resumed(State& state, const Event& event) {
  RIDGE_TRY(note, payload<record::Note>(event));
  state.occurrences.push_back({event.time, event.kind, std::move(note)});
  state.paused.reset();
  state.failures_in_a_row = 0;
  state.unmeasured_in_a_row = 0;
  return ok_status();
}

// Every event but an intent or a note records that the effect begun before it is done.
bool completes_an_effect(EventKind kind) {
  return kind != EventKind::kIntent && kind != EventKind::kPaused && kind != EventKind::kResumed &&
         kind != EventKind::kBudget && kind != EventKind::kWaived && kind != EventKind::kMasked;
}

void note_cost(State& state, const Event& event) {
  const double seconds = event.active - state.active;
  switch (event.kind) {
    case EventKind::kIntent: return;  // its effect's record carries the time
    case EventKind::kReported:        // not part of what is rendered: the report cannot hold its own digest
    case EventKind::kResumed:
    case EventKind::kBudget:
    case EventKind::kWaived:
    case EventKind::kMasked:
    case EventKind::kPaused: break;
    default: {
      const bool in_round = !state.rounds.empty() && state.baseline_committed;
      const std::int64_t round = in_round ? state.rounds.back().number : (state.baseline ? 1 : 0);
      state.costs.push_back({event.time, event.kind, round, seconds, event.active, {}});
      if (event.kind == EventKind::kProposed) state.costs.back().usage = std::exchange(state.usage, {});
    }
  }
  state.active = event.active;
}

struct Handler {
  EventKind kind;
  Status (*apply)(State& state, const Event& event);
};
constexpr Handler kHandlers[] = {
    {EventKind::kCreated, on_created},
    {EventKind::kConfirmed, on_confirmed},
    {EventKind::kPrepared, on_prepared},
    {EventKind::kTipsRead, on_tips},
    {EventKind::kBaseline, on_baseline},
    {EventKind::kIntent, on_intent},
    {EventKind::kProposed, on_proposed},
    {EventKind::kScreened, on_screened},
    {EventKind::kEvaluated, on_evaluated},
    {EventKind::kDecided, on_decided},
    {EventKind::kCalibrated, on_calibrated},
    {EventKind::kCommitted, on_committed},
    {EventKind::kRolledBack, on_rolled_back},
    {EventKind::kTermination, on_termination},
    {EventKind::kFinal, on_final},
    {EventKind::kReported, on_reported},
    {EventKind::kPaused, on_paused},
    {EventKind::kResumed, on_resumed},
    {EventKind::kBudget, on_budget},
    {EventKind::kWaived, on_waived},
    {EventKind::kEscalated, on_escalated},
    {EventKind::kMasked, on_masked},
    {EventKind::kProfiled, on_profiled},
    {EventKind::kReplicated, on_replicated},
};

std::map<std::string, std::int64_t> changed_defines(const record::Candidate& from, const record::Candidate& to) {
  std::map<std::string, std::int64_t> changed;
  for (const auto& [name, value] : to.defines) {
    const auto found = from.defines.find(name);
    if (found == from.defines.end() || found->second != value) changed[name] = value;
  }
  return changed;
}

}  // namespace

const record::Candidate* Attempt::candidate() const {
  if (evaluated) return &evaluated->candidate;
  if (proposal.candidates.size() == 1) return &proposal.candidates.front();
  if (!screened || screened->chosen.empty()) return nullptr;
  for (const record::Candidate& candidate : proposal.candidates) {
    if (candidate.id() == screened->chosen) return &candidate;
  }
  return nullptr;
}

record::RoundState Round::state() const {
  if (committed) return record::RoundState::kAccepted;
  if (!decision || decision->accepted) return record::RoundState::kUnfinished;
  if (settles(decision->outcome)) return record::RoundState::kRolledBack;
  // An audit that failed makes the sessions void, whatever effects they gave.
  if (decision->outcome == record::Outcome::kHarnessFault) return record::RoundState::kNotMeasured;
  return decision->effects.empty() ? record::RoundState::kNotMeasured : record::RoundState::kNotSettled;
}

bool Round::without_verdict() const {
  const record::RoundState came_to = state();
  return came_to == record::RoundState::kNotSettled || came_to == record::RoundState::kNotMeasured;
}

std::string incumbent_artifact(const State& state, const Round& round) {
  for (const Round& one : state.rounds) {
    if (one.number == round.incumbent_round) return one.last().evaluated->evaluation.build.artifact;
  }
  return state.baseline ? state.baseline->evaluation.build.artifact : std::string();
}

const Round* State::open_round() const { return rounds.empty() || rounds.back().closed() ? nullptr : &rounds.back(); }

std::int64_t State::rounds_closed() const {
  return static_cast<std::int64_t>(rounds.size()) - (open_round() != nullptr ? 1 : 0);
}

std::vector<const Round*> State::known_before(std::int64_t round) const {
  std::set<std::int64_t> hidden(masked.rounds.begin(), masked.rounds.end());
  for (const Round& one : rounds) {
    if (one.number == round) hidden = one.hidden;
  }
  std::vector<const Round*> known;
  for (const Round& one : rounds) {
    if (one.number < round && one.closed() && !hidden.contains(one.number)) known.push_back(&one);
  }
  return known;
}

Status apply(State& state, const Event& event) {
  if (event.kind != EventKind::kCreated && !state.created) return impossible(event, "the campaign is not created");
  for (const Handler& handler : kHandlers) {
    if (handler.kind != event.kind) continue;
    RIDGE_CHECK_OK(handler.apply(state, event));
    if (completes_an_effect(event.kind)) state.intents.clear();
  }
  ++state.events;
  if (state.first_hash.empty()) state.first_hash = event.hash;
  state.last_hash = event.hash;
  state.updated_at = event.time;
  note_cost(state, event);
  return ok_status();
}

Result<State> fold(std::span<const Event> events) {
  State state;
  for (const Event& event : events) RIDGE_CHECK_OK(apply(state, event));
  return state;
}

record::RoundSummary summarise(const Round& round) {
  record::RoundSummary summary;
  summary.round = round.number;
  const Attempt& last = round.last();
  summary.proposer = last.proposer;
  summary.hypothesis = last.proposal.hypothesis;
  if (const record::Candidate* candidate = last.candidate()) {
    summary.candidate = *candidate;
    summary.changed = changed_defines(round.incumbent, *candidate);
  }
  if (last.screened) summary.sweep = last.screened->rows;
  if (round.decision) {
    summary.outcome = round.decision->outcome;
    summary.accepted = round.committed.has_value();
    summary.state = round.state();
    summary.reason = round.decision->reason;
    const bool measured = summary.state != record::RoundState::kNotMeasured;
    if (measured && !round.decision->effects.empty()) summary.suite_ratio = round.decision->effects.front().ratio;
  }
  return summary;
}

std::vector<record::RoundSummary> history(const State& state) {
  std::vector<record::RoundSummary> rounds;
  for (const Round* round : state.known_before(state.next_round())) rounds.push_back(summarise(*round));
  return rounds;
}

}  // namespace ridge::journal
