#include "campaign/transition.h"

#include "base/error.h"
#include "campaign/calibration.h"
#include "campaign/decide.h"
#include "campaign/escalate.h"
#include "campaign/profile_hook.h"
#include "campaign/replica.h"

namespace ridge::campaign {
namespace {

using record::Phase;

bool round_open(const State& s) { return s.open_round() != nullptr; }
const Attempt& attempt(const State& s) { return s.open_round()->last(); }
bool quick_look_passed(const State& s) {
  return attempt(s).evaluated && attempt(s).evaluated->level == "quick" && passes_quick_look(s);
}
bool evidence_missing(const State& s) {
  const std::int64_t due = escalation_due(s, s.next_round());
  if (round_open(s) || due == 0 || s.waivers.contains(kEscalationRule)) return false;
  const record::Escalated* found = escalation_of(s, s.next_round());
  return found == nullptr || found->level < due;
}
bool is_sweep(const State& s) { return attempt(s).proposal.candidates.size() > 1; }

// The order is the campaign's law: a row is reached only when none above it holds.
constexpr Transition kTable[] = {
    {Due::kCreate, Phase::kDefineTarget, "define the target", "nothing is recorded yet",
     [](const State& s) { return !s.created; }},
    {Due::kConfirm, Phase::kConfirm, "confirm the manifest", "the manifest is not confirmed",
     [](const State& s) { return !s.confirmed; }},
    {Due::kPrepare, Phase::kPrepare, "prepare the environment", "environment and ceilings are not recorded",
     [](const State& s) { return !s.prepared; }},
    {Due::kReadTips, Phase::kTips, "read the tips", "the tips are not read", [](const State& s) { return !s.tips; }},
    {Due::kMeasureBaseline, Phase::kBaseline, "check and measure the baseline", "the baseline is not measured",
     [](const State& s) { return !s.baseline; }},
    {Due::kCommit, Phase::kBaseline, "commit the baseline", "round 1 is not committed",
     [](const State& s) { return !s.baseline_committed; }},
    {Due::kProfile, Phase::kAnalyze, "profile the incumbent",
     "its build was not profiled, and it is the baseline, two rounds in a row were rolled back, or the end has come",
     [](const State& s) { return !profile_trigger(s).empty(); }},
    {Due::kNothing, Phase::kDone, "nothing", "the report is written",
     [](const State& s) { return s.reported.has_value(); }},
    {Due::kReplicate, Phase::kReport, "measure the best against the baseline on another device",
     "the final measurement is recorded, and the manifest has replicate_on", replica_due},
    {Due::kReport, Phase::kReport, "write the report", "the final measurement is recorded",
     [](const State& s) { return s.final_measurement.has_value(); }},
    {Due::kMeasureFinal, Phase::kReport, "measure the best against the baseline", "a termination condition holds",
     [](const State& s) { return s.terminated(); }},
    {Due::kCheckTermination, Phase::kTermination, "check the termination conditions",
     "no round is open and the conditions are not checked since the last one",
     [](const State& s) { return !round_open(s) && !s.checked; }},
    {Due::kCalibrate, Phase::kBaseline, "measure the incumbent against itself",
     "no round is open, and the last calibration favoured an arm, or was 20 decisions or a factor of two in speed ago",
     [](const State& s) { return !round_open(s) && calibration_due(s); }},
    {Due::kEscalate, Phase::kAnalyze, "gather the evidence that rollbacks in a row ask for",
     "the last round was rolled back and its evidence is not gathered", evidence_missing},
    {Due::kPropose, Phase::kAnalyze, "ask the proposer", "no round is open",
     [](const State& s) { return !round_open(s); }},
    {Due::kCommit, Phase::kDecide, "accept: snapshot and commit", "the round is decided and accepted",
     [](const State& s) { return s.open_round()->decision && s.open_round()->decision->accepted; }},
    {Due::kRollBack, Phase::kDecide, "roll back to the last accepted snapshot", "the round is decided and not accepted",
     [](const State& s) { return s.open_round()->decision.has_value(); }},
    {Due::kPropose, Phase::kOptimize, "ask the proposer for a repair", "the candidate did not build or was wrong",
     [](const State& s) { return repair_is_due(*s.open_round()); }},
    {Due::kEvaluate, Phase::kValidate, "measure the candidate on all target shapes", "it passed the quick look",
     quick_look_passed},
    {Due::kDecide, Phase::kDecide, "decide", "the candidate is evaluated",
     [](const State& s) { return attempt(s).evaluated.has_value(); }},
    {Due::kScreen, Phase::kOptimize, "look at every configuration of the sweep", "the sweep is not screened",
     [](const State& s) { return is_sweep(s) && !attempt(s).screened; }},
    {Due::kDecide, Phase::kDecide, "decide", "no configuration of the sweep is usable",
     [](const State& s) { return attempt(s).candidate() == nullptr; }},
    {Due::kEvaluate, Phase::kValidate, "build, check and measure the candidate", "a candidate is chosen",
     [](const State&) { return true; }},
};

bool repairable(record::Outcome outcome) {
  return outcome == record::Outcome::kCompile || outcome == record::Outcome::kWrong ||
         outcome == record::Outcome::kCrash || outcome == record::Outcome::kHang || outcome == record::Outcome::kOom;
}

}  // namespace

std::span<const Transition> transitions() { return kTable; }

const Transition& next_transition(const State& state) {
  for (const Transition& row : kTable) {
    if (row.holds(state)) return row;
  }
  return kTable[std::size(kTable) - 1];
}

std::string transitions_markdown() {
  std::string text = "| Phase | What is due | When |\n|---|---|---|\n";
  for (const Transition& row : kTable) {
    text += fmt::format("| {} | {} | {} |\n", record::name_of(row.phase), row.action, row.when);
  }
  return text;
}

bool repair_is_due(const Round& round) {
  if (round.decision || round.refused_retry || round.attempts.size() >= kMaxAttempts) return false;
  const Attempt& last = round.last();
  return last.evaluated && repairable(last.evaluated->evaluation.outcome);
}

record::Phase phase_of(const State& state) { return state.paused ? Phase::kPaused : next_transition(state).phase; }

}  // namespace ridge::campaign
