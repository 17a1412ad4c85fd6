// Rules 34-51: what was measured and how it was decided.
#include <cmath>

#include "base/hash.h"
#include "campaign/decide.h"
#include "campaign/gates.h"
#include "campaign/level.h"
#include "campaign/proposal_rules.h"
#include "campaign/render.h"
#include "campaign/rules/findings.h"
#include "campaign/score.h"
#include "campaign/transition.h"

namespace ridge::campaign {
namespace {

using namespace findings;
using record::Outcome;

constexpr double kLongestWait = 900.0;  // seconds

// An evaluation that got as far as a measurement; null otherwise.
const record::Evaluation* measured(const RuleContext& c) {
  const record::Evaluation* e = evaluation_of(c);
  return e == nullptr || e->sessions.empty() ? nullptr : e;
}
RuleFinding not_measured() { return not_applicable("nothing was timed"); }

RuleFinding correct_before_timing(const RuleContext& c) {
  const record::Evaluation* e = measured(c);
  if (e == nullptr) return not_measured();
  if (e->build.artifact.empty()) return fail("timed without a built object");
  std::set<std::string> checked;
  for (const record::CheckRow& row : e->checks) {
    if (row.outcome == Outcome::kPass) checked.insert(row.label);
  }
  for (const record::ShapeSamples& shape : e->sessions.front().shapes) {
    const bool worker_says_wrong = e->outcome == Outcome::kWrong || e->outcome == Outcome::kCheat ||
                                   e->outcome == Outcome::kCrash || e->outcome == Outcome::kHang;
    if (!checked.contains(shape.label) && !worker_says_wrong)
      return fail(shape.label + " was timed without a passed check");
  }
  return pass(fmt::format("{} shapes checked on object {} before they were timed", checked.size(),
                          e->build.artifact.substr(0, 12)));
}

RuleFinding bounded_repairs(const RuleContext& c) {
  if (c.round->attempts.size() > kMaxAttempts) {
    return fail(fmt::format("{} attempts, at most {}", c.round->attempts.size(), kMaxAttempts));
  }
  for (const Attempt& attempt : c.round->attempts) {
    if (attempt.proposal.hypothesis.mechanism != c.round->attempts.front().proposal.hypothesis.mechanism) {
      return fail("an attempt is about another mechanism");
    }
  }
  return pass(fmt::format("{} of at most {} attempts, one hypothesis", c.round->attempts.size(), kMaxAttempts));
}

RuleFinding rows_are_the_level(const RuleContext& c) {
  const record::Evaluation* e = measured(c);
  if (e == nullptr) return not_measured();
  const std::vector<std::string> labels = labels_of_level(c.state, c.round->last().evaluated->level);
  for (const record::Session& session : e->sessions) {
    if (session.voided) continue;
    const Result<SessionRatios> ratios = session_ratios(session, labels);
    if (!ratios) return fail(ratios.error().message);
  }
  return pass(
      fmt::format("{} sessions hold exactly {} shapes, every launch a time", e->sessions.size(), labels.size()));
}

RuleFinding levels_are_sets(const RuleContext& c) {
  if (!c.round->last().evaluated) return not_applicable("nothing was evaluated");
  const std::string& level = c.round->last().evaluated->level;
  if (level != "quick" && level != "full") return fail("level \"" + level + "\" does not exist");
  const std::set<std::string> wanted = as_set(labels_of_level(c.state, level));
  for (const record::CheckRow& row : c.round->last().evaluated->evaluation.checks) {
    if (!wanted.contains(row.label)) return fail(row.label + " is no shape of the " + level + " level");
  }
  return pass(fmt::format("{}: {} shapes", level, wanted.size()));
}

RuleFinding upgraded(const RuleContext& c) {
  if (!c.round->decision || !accepted(*c.round)) return not_applicable("not accepted");
  const FullReasons reasons = full_reasons(c.state, *c.round);
  const bool full = c.round->last().evaluated->level == "full";
  return unless(full ? std::string() : "accepted on the quick level although: " + reasons.text(),
                "full; it is asked for because " + reasons.text());
}

RuleFinding same_header(const RuleContext& c) {
  if (!c.state.prepared) return unknown("nothing is frozen yet");
  const auto frozen = c.state.prepared->frozen.find("benchmark_header");
  const bool same = frozen != c.state.prepared->frozen.end() &&
                    frozen->second == sha256(benchmark_header(c.state.spec().target_cases));
  const auto first_line = [](const std::string& table) { return table.substr(0, table.find('\n')); };
  if (const record::Evaluation* e = evaluation_of(c); e != nullptr && e->table && c.state.baseline->evaluation.table) {
    return unless(first_line(*e->table) == first_line(*c.state.baseline->evaluation.table)
                      ? std::string()
                      : "the project's table has another header than at the baseline",
                  "byte-identical header of the project's table");
  }
  return unless(same ? std::string() : "the header is not the frozen one", "byte-identical header in every round");
}

RuleFinding one_timing_engine(const RuleContext& c) {
  const record::Evaluation* e = measured(c);
  if (e == nullptr) return not_measured();
  const std::string& wanted = c.state.baseline->evaluation.timing;
  return unless(e->timing == wanted ? std::string() : fmt::format("timed by {}, the baseline by {}", e->timing, wanted),
                "all by " + wanted);
}

RuleFinding command_counted(const RuleContext& c) {
  const record::Evaluation* e = evaluation_of(c);
  if (e == nullptr) return not_applicable("nothing was run");
  if (e->outcome == Outcome::kHarnessFault) return not_applicable("the worker gave no answer: nothing counts");
  const bool exists = e->outcome == Outcome::kCompile || !e->build.artifact.empty();
  return unless(exists ? std::string() : "the worker answered without a built object",
                "the worker exited and wrote its answer last and durably");
}

RuleFinding bounded_waits(const RuleContext& c) {
  const record::Protocol& p = c.state.spec().protocol;
  const double longest = std::max(p.call_timeout, p.build_timeout);
  return unless(
      longest > kLongestWait ? fmt::format("a wait of {} s is longer than {} s", longest, kLongestWait) : std::string(),
      fmt::format("a call {} s, a build {} s; a worker silent for {} s is killed", p.call_timeout, p.build_timeout,
                  kLongestWait));
}

RuleFinding no_pipes(const RuleContext& c) {
  const record::Evaluation* e = evaluation_of(c);
  if (e == nullptr || e->build.command.empty()) return not_applicable("no command was run");
  const bool piped = e->build.command.find('|') != std::string::npos;
  return unless(piped ? "the command goes through a pipe: " + e->build.command : std::string(),
                "run as an argument list, its output kept whole");
}

RuleFinding all_rows_pass(const RuleContext& c) {
  const record::Evaluation* e = evaluation_of(c);
  if (e == nullptr || e->checks.empty()) return not_applicable("nothing was checked");
  const auto bad = std::find_if(e->checks.begin(), e->checks.end(),
                                [](const record::CheckRow& row) { return row.outcome != Outcome::kPass; });
  if (bad == e->checks.end()) return pass(fmt::format("{} rows, all PASS", e->checks.size()));
  if (accepted(*c.round)) return fail(bad->label + " did not pass, and the round was accepted");
  return pass(fmt::format("{} did not pass, and the round is not accepted", bad->label));
}

RuleFinding precise(const RuleContext& c) {
  const record::Evaluation* e = evaluation_of(c);
  if (e == nullptr || e->checks.empty()) return not_applicable("nothing was checked");
  double worst = 0;
  for (const record::CheckRow& row : e->checks) {
    const bool sound = std::isfinite(row.max_error_ratio) && row.max_error_ratio <= 1.0 && row.verified_calls > 0;
    if (!sound && accepted(*c.round)) {
      return fail(fmt::format("{}: error {:.3g} of what is allowed over {} calls", row.label, row.max_error_ratio,
                              row.verified_calls));
    }
    worst = std::max(worst, row.max_error_ratio);
  }
  return pass(fmt::format("largest error {:.2g} of the operator's error model", worst));
}

RuleFinding score_kept(const RuleContext& c) {
  if (!c.round->decision || c.round->decision->effects.empty()) return not_applicable("nothing was confirmed");
  const std::vector<record::Effect>& effects = c.round->decision->effects;
  const std::vector<std::string> labels = labels_of_level(c.state, c.round->last().evaluated->level);
  if (effects.front().label != "suite") return fail("the suite's effect is missing");
  std::set<std::string> seen;
  for (std::size_t i = 1; i < effects.size(); ++i) seen.insert(effects[i].label);
  if (seen != as_set(labels)) return fail("the vector of shapes is not complete");
  return pass(fmt::format("geometric mean {:.4f}x and the vector of {} shapes", effects.front().ratio, seen.size()));
}

// The time that a combined step counts is the sum of both directions', process by process.
RuleFinding sums_of_both(const record::Evaluation& e, const std::vector<std::string>& labels) {
  std::size_t tables = 0;
  for (const std::string& label : labels) {
    for (const Arm arm : {Arm::kIncumbent, Arm::kCandidate}) {
      const std::vector<double> steps = launches(e.sessions, label, arm),
                                forward = column_values(e.sessions, "forward", label, arm),
                                backward = column_values(e.sessions, "backward", label, arm);
      if (forward.size() != steps.size() || backward.size() != steps.size())
        return fail(fmt::format("{}: a table lacks one of the directions", label));
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (!(std::fabs(forward[i] + backward[i] - steps[i]) <= 1e-9 * steps[i]))
          return fail(
              fmt::format("{}: {} s is not {} s forward and {} s backward", label, steps[i], forward[i], backward[i]));
      }
      tables += steps.size();
    }
  }
  return pass(fmt::format("the time of a step is the sum of both directions in all {} rows", tables));
}

RuleFinding combined_step(const RuleContext& c) {
  const record::Evaluation* e = measured(c);
  if (e == nullptr) return not_measured();
  if (const std::optional<record::Metric> metric = project_metric(c.state.spec())) {
    if (!metric->forward || !metric->backward) return not_applicable(metric->name + " is not of a whole step");
    return sums_of_both(*e, labels_of_level(c.state, c.round->last().evaluated->level));
  }
  const Result<record::Metric> metric = record::parse_metric(c.state.spec().primary_metric);
  if (metric && !metric->backward) return not_applicable("the operator has no backward pass here");
  // A session times one call per launch; there is no second time to add.
  return fail(c.state.spec().primary_metric + " needs a backward pass, and none was timed");
}

RuleFinding accepted_for_cause(const RuleContext& c) {
  if (!c.round->decision) return not_applicable("not decided yet");
  const record::Decision& d = *c.round->decision;
  const auto gate = std::find_if(d.gates.begin(), d.gates.end(),
                                 [](const record::GateResult& g) { return g.outcome != record::GateOutcome::kPass; });
  if (!d.accepted) return pass("not accepted: " + (gate == d.gates.end() ? d.reason : gate->gate));
  if (gate != d.gates.end()) return fail("accepted although the gate " + gate->gate + " does not pass");
  if (d.effects.empty() || !(d.effects.front().ratio > 1.0)) return fail("accepted without a gain");
  for (const record::Effect& effect : d.effects) {
    if (effect.ratio <= 0.95)
      return fail(fmt::format("accepted although {} is at {:.3f}x", effect.label, effect.ratio));
  }
  return pass(fmt::format("{} gates pass, suite {:.3f}x", d.gates.size(), d.effects.front().ratio));
}

RuleFinding volatile_rolls_back(const RuleContext& c) {
  if (!c.round->decision) return not_applicable("not decided yet");
  const bool unclear = std::any_of(c.round->decision->gates.begin(), c.round->decision->gates.end(),
                                   [](const auto& g) { return g.outcome == record::GateOutcome::kInconclusive; });
  if (!unclear) return pass("nothing was inconclusive");
  return unless(accepted(*c.round) ? "accepted although a gate is inconclusive" : std::string(),
                "inconclusive, so rolled back");
}

constexpr Rule kValidateRules[] = {
    {34, "correct first", Phase::kValidate, RuleScope::kRound, false,
     "Every shape passes its check before it is timed.", "check rows, object digest", correct_before_timing},
    {35, "bounded repairs", Phase::kValidate, RuleScope::kRound, false,
     "A failure is repaired within the round, at most three times, under the same hypothesis.", "attempts",
     bounded_repairs},
    {36, "rows of the level", Phase::kValidate, RuleScope::kRound, false,
     "Exactly the level's shapes, none twice, every launch a positive time.", "sessions", rows_are_the_level},
    {37, "levels", Phase::kValidate, RuleScope::kRound, false,
     "Quick is all representative shapes, full is all target shapes.", "level, check rows", levels_are_sets},
    {38, "full before accept", Phase::kValidate, RuleScope::kRound, false,
     "Full is needed under 5 % gain, for risky changes, at the end of a direction and at final acceptance.",
     "level, gain, changed files", upgraded},
    {39, "one header", Phase::kValidate, RuleScope::kRound, false, "The CSV header is byte-identical in every round.",
     "header digest", same_header},
    {40, "one timing engine", Phase::kValidate, RuleScope::kRound, false,
     "Numbers of two timing engines are never compared.", "timing tags", one_timing_engine},
    {41, "finished commands", Phase::kValidate, RuleScope::kRound, false,
     "A command counts when its process exited and its artefact exists.", "outcome, object digest", command_counted},
    {42, "bounded waits", Phase::kValidate, RuleScope::kRound, false, "No single wait is longer than 900 s.",
     "protocol", bounded_waits},
    {43, "no filters", Phase::kValidate, RuleScope::kRound, false, "No output goes through tail, head or grep.",
     "recorded command", no_pipes},
    {44, "check column", Phase::kValidate, RuleScope::kRound, false, "Any row that is not PASS rejects.", "check rows",
     all_rows_pass},
    {45, "precision", Phase::kValidate, RuleScope::kRound, false,
     "Errors stay inside the frozen error model on verified calls.", "error ratios, verified calls", precise},
    {46, "score", Phase::kDecide, RuleScope::kRound, false, "The geometric mean and the vector of shapes are kept.",
     "effects", score_kept},
    {47, "combined step", Phase::kDecide, RuleScope::kRound, false,
     "With a backward pass: 6MNK over both times; without: no metric regresses.", "primary metric", combined_step},
    {49, "accept", Phase::kDecide, RuleScope::kRound, false,
     "Accepted if and only if every gate passes: faster, and no shape 5 % slower.", "gates, effects",
     accepted_for_cause},
    {51, "volatile", Phase::kDecide, RuleScope::kRound, false, "What cannot be told apart from noise rolls back.",
     "gates", volatile_rolls_back},
};

}  // namespace

std::span<const Rule> validate_rules() { return kValidateRules; }

}  // namespace ridge::campaign
