// The logs: dated blocks, appended and never changed.
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "campaign/ledger.h"
#include "campaign/project_table.h"
#include "campaign/render.h"
#include "campaign/replica.h"
#include "campaign/score.h"
#include "campaign/state.h"
#include "campaign/target.h"
#include "journal/replica.h"
#include "record/json.h"

namespace ridge::campaign {

std::string minute(const std::string& time) {
  return time.size() < 16 ? time : time.substr(0, 10) + " " + time.substr(11, 5);
}

std::vector<record::RooflinePoint> baseline_points(const State& state) {
  return measured_roofline(state.baseline->evaluation.roofline, state.baseline->evaluation.sessions);
}

namespace {

// "2026-11-21T07:30:12Z" -> "2026-11-21 07:30:12"
std::string second(const std::string& time) {
  return time.size() < 19 ? time : time.substr(0, 10) + " " + time.substr(11, 8);
}

std::string basic_information(const State& state) {
  const record::CampaignSpec& spec = state.spec();
  return fmt::format(
      "# {} {} Optimization Log\n\n## Basic Information\n\n- Target operator: {}\n- Implementation language: {}\n"
      "- Backend: {}\n- Target GPU: {}\n- Campaign: {}\n- Start time: {}\n"
      "- Current status: the last block of this file\n\n",
      spec.op, spec.backend, spec.op, spec.language, spec.backend, spec.gpu, spec.id, minute(state.created_at));
}

std::string baseline_block(const State& state) {
  const record::Baseline& baseline = *state.baseline;
  const std::vector<record::RooflinePoint> points = baseline_points(state);
  const Rate rate = rate_of(state);
  std::string text = fmt::format(
      "## Baseline\n\n- Time: {}\n- Backend: {}\n- GPU: {}\n- Commit: {}\n- Validation level: full\n"
      "- Aggregate score: {}, {:.1f} % of {}\n- All Check: PASS\n"
      "- Noise: {:.2f} % per session, smallest decidable gain about {:.1f} %\n"
      "- Detailed data: rounds/round-1/artifacts/benchmark.csv\n- Quick baseline log: rounds/round-1/summary.md\n\n",
      minute(state.baseline_at), state.spec().backend, state.spec().gpu,
      state.baseline_committed->commit.empty() ? "none" : state.baseline_committed->commit.substr(0, 12),
      aggregate_text(state, points), 100 * geomean_efficiency(points), ceiling_words(state),
      100 * baseline.calibration.noise, 100 * baseline.calibration.detectable);
  text += fmt::format("| Shape | Time (ms) | {} | Of ceiling |\n|---|---|---|---|\n", rate.unit());
  for (const record::RooflinePoint& point : points) {
    text += fmt::format("| {} | {:.4f} | {} | {:.1f} % |\n", cell(point.label), point.latency * 1e3,
                        rate_text(rate.of(point.cost, point.latency)), 100 * point.fraction);
  }
  return text + "\n## Optimization History\n\n";
}

std::string changes_text(const record::RoundSummary& summary) {
  std::string text = file_list(summary.candidate);
  for (const auto& [name, value] : summary.changed) text += fmt::format(", {}={}", name, value);
  return text.empty() ? "none" : text;
}

std::string_view log_word(record::RoundState state) {
  if (state == record::RoundState::kAccepted) return "accept";
  return state == record::RoundState::kRolledBack ? "rollback" : record::name_of(state);
}

std::string round_block(const Round& round) {
  const record::RoundSummary summary = summarise(round);
  const record::Decision& decision = *round.decision;
  std::string notes = decision.plain_rule.empty() ? "" : "the plain rule " + decision.plain_rule;
  if (!round.refused.empty()) notes += fmt::format("; {} answers of the proposer were refused", round.refused.size());
  return fmt::format(
      "### round-{} — {}\n\n- Time: {}\n- Validation level: {}\n- Proposer: {}\n- Hypothesis: {}\n- Changes: {}\n- "
      "Result: {}\n"
      "- Test: {}\n- Decision: {}\n- Detailed data: rounds/round-{}/\n- Notes: {}\n\n",
      round.number, cell(summary.hypothesis.title), minute(round.closed_at), level_of(round), cell(summary.proposer),
      cell(summary.hypothesis.reasoning), cell(changes_text(summary)), cell(decision.reason),
      record::name_of(decision.outcome), log_word(summary.state), round.number, cell(notes));
}

std::string termination_block(const record::Termination& termination) {
  std::string text = "### Termination Check\n\n";
  for (const record::GateResult& condition : termination.conditions) {
    const bool holds = condition.outcome == record::GateOutcome::kPass;
    text += fmt::format("- {}: {} {}\n", condition.gate, holds ? "✅" : "❌", condition.detail);
  }
  return text + fmt::format("\n-> Satisfied condition(s): {}\n\n", termination.condition);
}

// How much of the gain a training step keeps. Rounds compound; the sum of percentages is what people write down.
std::string attribution_block(const Ledger& ledger, double measured) {
  const auto percent = [](double ratio) { return 100 * (ratio - 1); };
  return fmt::format(
      "### Real-training applicability audit\n\n| Source | Buckets | Benchmark gain | Real-training-equivalent gain |\n"
      "|---|---|---|---|\n| structural | K1-K4 | {0:+.2f} % | {0:+.2f} % |\n| bounded weight cache | W1 | {1:+.2f} % | "
      "{1:+.2f} % |\n| benchmark-only residual | - | {2:+.2f} % | 0.00 % |\n| Total | | {3:+.2f} % | {4:+.2f} % |\n\n"
      "- headline: {5:+.2f} % measured afresh; rounds compound to {3:+.2f} %, their percentages add up to {6:+.2f} %\n"
      "- equivalent: {4:+.2f} %\n- inflation gap: {7:.2f} %\n- verdict: {8}\n\n",
      percent(ledger.structural), percent(ledger.weight), percent(ledger.residual), percent(ledger.headline),
      percent(ledger.equivalent()), percent(measured), ledger.sum_percent, ledger.gap_percent(), ledger.verdict());
}

// "2 accepted, 3 rolled back, 1 not measured", of the first rounds.
std::string count_states(const State& state, std::size_t rounds) {
  std::map<record::RoundState, int> counts = {{record::RoundState::kAccepted, 0}, {record::RoundState::kRolledBack, 0}};
  for (std::size_t i = 0; i < rounds; ++i) ++counts[state.rounds[i].state()];
  std::string text;
  for (const auto& [one, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, record::name_of(one));
  return text;
}

std::string directions_to_try(const State& state, const Ending& ending) {
  std::string text;
  for (const record::OpenDirection& one : open_directions(state, ending.rounds, ending.escalations))
    text += fmt::format("- [ ] {}: {}\n", cell(one.direction), cell(one.rationale));
  return text.empty() ? "None is known: every declared tunable was measured, and no review named another.\n" : text;
}

// Comes last of an ending: the log of a campaign that was halted before it goes on with it.
std::string replica_block(const State& state, const record::Final& measured, const record::Replicated& replicated) {
  std::string text = fmt::format("### On another device\n\n- {}\n\n", cell(replica_text(state, measured, replicated)));
  const std::vector<record::ReplicaRow> rows = compare_effects(measured.effects, replicated.effects);
  if (rows.empty()) return text;
  const auto interval = [](const record::Effect& effect) {
    return fmt::format("{:.3f}x ({:.3f}x to {:.3f}x)", effect.ratio, effect.low, effect.high);
  };
  text += "| Shape | This device | The other | Differs |\n|---|---|---|---|\n";
  for (const record::ReplicaRow& row : rows) {
    text += fmt::format("| {} | {} | {} | {} |\n", cell(row.label), interval(row.here), interval(row.there),
                        row.differs.empty() ? "no" : row.differs);
  }
  return text + "\n";
}

// Current best, directions, ineffective ones and the final report, as they stood after `rounds` rounds.
std::string ending_block(const State& state, const Ending& ending) {
  double product = 1.0;
  std::string effective, ineffective;
  std::int64_t accepted = 0, best = 1;
  for (std::size_t i = 0; i < ending.rounds; ++i) {
    const record::RoundSummary summary = summarise(state.rounds[i]);
    if (summary.accepted) {
      ++accepted;
      best = summary.round;
      product *= summary.suite_ratio;
      effective +=
          fmt::format("- round-{}: {} ({:.3f}x)\n", summary.round, cell(summary.hypothesis.title), summary.suite_ratio);
    } else if (summary.state == record::RoundState::kRolledBack) {
      ineffective +=
          fmt::format("| {} | round-{} | {} |\n", cell(summary.hypothesis.title), summary.round, cell(summary.reason));
    }
  }
  const record::Final& measured = ending.final_measurement;
  const double ratio = measured.effects.empty() ? 1.0 : measured.effects.front().ratio;
  std::string text = fmt::format(
      "## Current Best\n\n- Time: {}\n- Round: round-{}\n\n| Metric | Baseline | Current Best | Improvement |\n"
      "|---|---|---|---|\n| speed, geomean | 1.000x | {:.3f}x | {:+.1f} % |\n\n",
      minute(ending.time), best, ratio, 100 * (ratio - 1));
  text += "## Directions to Try\n\n" + directions_to_try(state, ending) + "\n";
  text += "## Verified Ineffective Directions\n\n| Direction | Version | Failure Reason |\n|---|---|---|\n" +
          ineffective + "\n";
  text += "## Final Report\n\n" + termination_block(ending.termination);
  text += fmt::format("- Iterations: {} ({})\n", ending.rounds, count_states(state, ending.rounds));
  if (measured.effects.empty()) {
    text += accepted == 0 ? "- Final against baseline: nothing was accepted, the baseline stands\n"
                          : "- Final against baseline: not measured (" + cell(measured.evaluation.detail) + ")\n";
  } else {
    const record::Effect& suite = measured.effects.front();
    text += fmt::format("- Final against baseline: {:.3f}x ({:.3f}x to {:.3f}x over {} fresh sessions)\n", suite.ratio,
                        suite.low, suite.high, suite.sessions);
  }
  text +=
      fmt::format("- Product of the accepted gains: {:.3f}x\n\n### Effective directions\n\n{}\n", product, effective);
  text += attribution_block(ledger_of(state, ending.rounds), accepted == 0 ? 1.0 : ratio);
  return ending.replicated ? text + replica_block(state, measured, *ending.replicated) : text;
}

std::string trend_row(const std::string& round, std::string_view status, const std::string& description,
                      const StepScore& score, const std::string& own, const std::string& versus,
                      const std::string& finding) {
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |{} {} | {} |\n", round, status, cell(description),
                     score_text(score.forward), score_text(score.forward_peak), score_text(score.backward),
                     score_text(score.backward_peak), score_text(score.step), own, versus, cell(finding));
}

}  // namespace

std::string render_optimize_log(const State& state) {
  std::string text = basic_information(state) + baseline_block(state);
  std::vector<Ending> endings = state.endings;
  if (state.final_measurement && state.termination) {
    endings.push_back({state.ended_at, *state.termination, *state.final_measurement, state.rounds.size(),
                       state.escalations.size(), state.replicated});
  }
  std::size_t ending = 0;
  for (std::size_t i = 0; i <= state.rounds.size(); ++i) {
    for (; ending < endings.size() && endings[ending].rounds == i; ++ending) {
      text += ending_block(state, endings[ending]);
      if (ending < state.endings.size()) text += "## Optimization History (continued)\n\n";
    }
    if (i < state.rounds.size() && state.rounds[i].closed()) text += round_block(state.rounds[i]);
  }
  return text;
}

std::string render_trend(const State& state, Rate rate, TrendReader reader) {
  const bool viewer = reader == TrendReader::kViewer;
  const auto name = [&](std::int64_t number) { return fmt::format("{}{}", viewer ? "" : "round-", number); };
  // A metric that is no rate of a direction has a column of its own.
  std::optional<record::Metric> own = viewer ? std::nullopt : project_metric(state.spec());
  if (own && (own->quantity == record::Quantity::kFlops || own->quantity == record::Quantity::kBytes)) own.reset();
  const auto own_cell = [&](const std::vector<record::RooflinePoint>& points) {
    return own ? fmt::format(" {} |", score_text(metric_value(*own, points))) : std::string();
  };
  std::string text = fmt::format(
      "| Round | Status | Description | Fwd Avg {0} | Fwd Peak {0} | Bwd Avg {0} | Bwd Peak {0} | "
      "{3} {0} |{1} vs Baseline | Key Finding |\n|---|---|---|---|---|---|---|---|---|---|{2}\n",
      rate.unit(), own ? fmt::format(" {} |", cell(title_of(*own))) : std::string(), own ? "---|" : "",
      viewer ? "Step Geomean" : "Combined Step");
  const auto score_of = [&](const std::vector<record::RooflinePoint>& points) {
    StepScore score = step_score(points, rate);
    if (viewer) score.step = step_geomean(score);
    return score;
  };
  const StepScore baseline = score_of(baseline_points(state));
  text += trend_row(name(1), "BASELINE", "the kernel to beat", baseline, own_cell(baseline_points(state)), "—",
                    fmt::format("noise {:.2f} % per session", 100 * state.baseline->calibration.noise));
  for (const Round& round : state.rounds) {
    if (!round.closed()) continue;
    const std::string& title = round.last().proposal.hypothesis.title;
    const std::string& reason = round.decision->reason;
    if (round.state() == record::RoundState::kNotMeasured) {
      if (viewer) continue;
      text += trend_row(name(round.number), "NOT MEASURED", title, {}, own_cell({}), "not measured", reason);
      continue;
    }
    const bool undone = viewer && round.state() == record::RoundState::kNotSettled;  // its code went back
    const std::vector<record::RooflinePoint> points = points_of(state, round);
    const StepScore score = score_of(points);
    const std::string versus = std::isfinite(score.step) ? versus_baseline(score, baseline) : std::string("-");
    text += trend_row(name(round.number), undone ? "ROLLBACK" : state_word(round, "ROLLBACK"), title, score,
                      own_cell(points), versus, undone ? "not settled: " + reason : reason);
  }
  return text;
}

namespace {

// Time, turns and money of an answer, and the money so far; dashes where a proposer said nothing.
std::string usage_cells(const CostRow& row, record::Usage& sum) {
  if (!row.usage) return "- | - | - | -";
  sum += *row.usage;
  const auto dollars = [](const std::optional<double>& usd) { return usd ? fmt::format("{:.4f}", *usd) : "-"; };
  return fmt::format("{:.1f} | {} | {} | {}", row.seconds, row.usage->turns, dollars(row.usage->usd), dollars(sum.usd));
}

}  // namespace

std::string render_cost(const State& state, PhaseOf phase) {
  std::string text =
      "# Campaign Cost Log\n\n| Time | Phase | Round | Status | Wall s | SDK s | Turns | Cost USD | Cumulative USD |\n"
      "|---|---|---|---|---|---|---|---|---|\n";
  record::Usage sum;
  for (const CostRow& row : state.costs) {
    text +=
        fmt::format("| {} | {} | {} | ok | {:.1f} | {} |\n", second(row.time),
                    phase != nullptr ? phase(row.kind) : record::name_of(row.kind),
                    row.round == 0 ? std::string("-") : std::to_string(row.round), row.seconds, usage_cells(row, sum));
  }
  return text;
}

}  // namespace ridge::campaign
