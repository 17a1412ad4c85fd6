// rounds/round-N/summary.md
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "campaign/ledger.h"
#include "campaign/manifest.h"
#include "campaign/project_table.h"
#include "campaign/render.h"
#include "campaign/score.h"
#include "campaign/state.h"
#include "campaign/target.h"
#include "record/execution.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }

std::string join(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& item : list) text += (text.empty() ? "" : "; ") + item;
  return or_none(text);
}

std::string or_dash(double rate) { return std::isfinite(rate) ? rate_text(rate) : std::string("-"); }

// One row per target shape. `effects` are against the incumbent, suite first, or empty.
std::string shape_table(const State& state, const record::Evaluation& evaluation,
                        const std::vector<record::Effect>& effects) {
  const std::vector<record::RooflinePoint> points =
      measured_roofline(state.baseline->evaluation.roofline, evaluation.sessions);
  const Rate rate = rate_of(state);
  const std::vector<ShapeColumn> columns = shape_columns(state.spec().target_cases);
  std::string text = "| Shape / label |", line = "|---|";
  for (const ShapeColumn& column : columns) {
    text += fmt::format(" {} |", column.title);
    line += "---|";
  }
  text += fmt::format(" Result | Forward {0} | Backward {0} | Delta vs current best |\n{1}---|---|---|---|\n",
                      rate.unit(), line);
  for (const record::Case& one : state.spec().target_cases) {
    const std::string label = one.label();
    const auto same = [&](const auto& item) { return item.label == label; };
    const auto check = std::find_if(evaluation.checks.begin(), evaluation.checks.end(), same);
    const auto point = std::find_if(points.begin(), points.end(), same);
    const auto effect = std::find_if(effects.begin(), effects.end(), same);
    text += fmt::format("| {} |", cell(label));
    for (const ShapeColumn& column : columns) text += fmt::format(" {} |", cell(one.get(column.param, "-")));
    const StepScore score = point == points.end() ? StepScore() : step_score({*point}, rate);
    text +=
        fmt::format(" {} | {} | {} | {} |\n", check == evaluation.checks.end() ? "-" : record::name_of(check->outcome),
                    or_dash(score.forward), or_dash(score.backward),
                    effect == effects.end() ? std::string("-") : fmt::format("{:+.2f} %", 100 * (effect->ratio - 1)));
  }
  return text + "\n";
}

// How it was tested and measured: an operator by the engine's worker, a project by its own commands.
std::string validation(const State& state, const std::string& time, const std::string& level,
                       const std::string& folder) {
  const bool project = record::is_of_project(state.spec());
  const std::string test = project ? extra_text(state.spec(), "test_command") +
                                         "; and Check of every row of the benchmark, on inputs that the project draws"
                                   : "the engine's worker, every timed call on a fresh secret input";
  const std::string benchmark = project ? extra_text(state.spec(), "benchmark_command") +
                                              ", a process of its own for every table, incumbent and candidate in turn"
                                        : "the engine's worker, paired and interleaved with the incumbent";
  return fmt::format(
      "### Validation\n\n- Time: {}\n- Validation level: {}\n- Test command: {}\n- Benchmark command: {}\n"
      "- Raw artifacts: {}/artifacts/, journal.jsonl\n\n",
      minute(time), level, test, benchmark, folder);
}

std::string aggregate(const State& state, const std::vector<record::RooflinePoint>& points, double versus_best) {
  if (points.empty()) return "### Aggregate\n\n- forward: not measured\n- backward: -\n\n";
  const std::vector<record::RooflinePoint> before = baseline_points(state);
  const Rate rate = rate_of(state);
  const StepScore now = step_score(points, rate), base = step_score(before, rate);
  const bool backward = std::isfinite(now.backward);
  std::string text =
      fmt::format("### Aggregate\n\n- forward: {} {} (geomean), {:.1f} % of {}\n- backward: {}\n",
                  rate_text(now.forward), rate.unit(), 100 * geomean_efficiency(points), ceiling_words(state),
                  backward ? rate_text(now.backward) + " " + std::string(rate.unit()) + " (geomean)" : "-");
  double gain = base.step > 0 ? 100 * (now.step / base.step - 1) : 0.0;
  if (const std::optional<record::Metric> metric = project_metric(state.spec())) {
    text += fmt::format("- primary metric: {}\n", aggregate_text(state, points));
    gain = percent_change(metric_value(*metric, points), metric_value(*metric, before));
  }
  return text +
         fmt::format("- vs baseline: {:+.2f} %\n- vs current best: {:+.2f} %\n\n", gain, 100 * (versus_best - 1));
}

std::string gate_table(const record::Decision& decision) {
  std::string text = "| Gate | Verdict | Detail |\n|---|---|---|\n";
  for (const record::GateResult& gate : decision.gates) {
    text += fmt::format("| {} | {} | {} |\n", gate.gate, record::name_of(gate.outcome), cell(gate.detail));
  }
  return text;
}

std::string hypothesis_text(const record::Hypothesis& h, const std::string& proposer) {
  return fmt::format(
      "{}\n\n- Proposer: {}\n- Bottleneck: {}\n- Reasoning: {}\n- Expected gain: {:+.1f} % ({})\n- Risks: {}\n- "
      "Verification signal: "
      "{}\n"
      "- Evidence: {}\n- Informed by: {}\n",
      h.title, proposer, h.bottleneck, or_none(h.reasoning), 100 * h.expected_gain, or_none(h.expected_gain_arithmetic),
      join(h.risks), or_none(h.verification_signal), join(h.evidence),
      h.informed_by ? fmt::format("round-{}", *h.informed_by) : std::string("none"));
}

std::string change_text(const record::RoundSummary& summary) {
  std::string text = "- Files: " + or_none(file_list(summary.candidate)) + "\n";
  for (const auto& [name, value] : summary.changed) text += fmt::format("- {} = {}\n", name, value);
  if (!summary.sweep.empty()) text += fmt::format("- Chosen from {} configurations\n", summary.sweep.size());
  return text;
}

// `round`: null for the baseline, which changes nothing.
std::string transfer_text(const State& state, const Round* round) {
  const std::size_t shapes = state.spec().target_cases.size();
  const record::Hypothesis none, &h = round != nullptr ? round->last().proposal.hypothesis : none;
  const bool accepted = round != nullptr && round->committed;
  const double gain = round != nullptr ? 100 * (summarise(*round).suite_ratio - 1) : 0.0;
  const std::optional<double> bound = round != nullptr && h.cache ? weight_bound_of(*round) : std::nullopt;
  const std::string worth = bound ? fmt::format("at most {:.2f} % of a training step, measured", 100 * *bound)
                                  : fmt::format("{:+.2f} % of this operator's time", gain);
  std::string key = "none", audit = "no state survives a call", trace = "not applicable, no cache";
  if (h.cache) {
    const KeyTrace four = trace_key(h.cache->key, kTraceSteps);
    const std::string refused = refuse_key(h.cache->key);
    key = join(h.cache->key);
    audit = refused.empty() ? "every part is stable" : refused;
    trace = fmt::format("{} of {}", four.hits, four.lookups);
  }
  return fmt::format(
      "## Real-training transfer check\n\n- Bucket: {}\n- Cache key: {}\n- id(...) audit: {}\n"
      "- 4-step trace hit rate: {}\n- Workload distribution robustness: {} target shapes\n"
      "- Benchmark gain: {:+.2f} %\n- Estimated real-training gain: {}\n- Decision: {}\n",
      h.bucket, key, audit, trace, shapes, gain, worth,
      accepted ? to_string(transfer_of(state, *round)) : std::string_view("not accepted"));
}

std::string rollback_text(const record::RoundSummary& summary, const record::Decision& decision) {
  return fmt::format(
      "## Rollback Analysis\n\n- Change made: {}\n- Expected effect: {:+.1f} %\n- Actual effect: {}\n- Root cause: {}\n"
      "- Lesson learned: {} does not pay here in this form\n\n",
      summary.hypothesis.title, 100 * summary.hypothesis.expected_gain,
      decision.effects.empty() ? std::string("not confirmed")
                               : fmt::format("{:+.2f} %", 100 * (summary.suite_ratio - 1)),
      decision.reason, summary.hypothesis.mechanism);
}

const char* next_direction(record::RoundState state) {
  switch (state) {
    case record::RoundState::kAccepted: return "Build on this candidate.";
    case record::RoundState::kNotMeasured: return "Measure this again: nothing is known of it.";
    case record::RoundState::kNotSettled:
      return "Open: the sessions could not tell. Measure it again with more of them.";
    default: return "Return to the last accepted candidate.";
  }
}

}  // namespace

std::string render_baseline_summary(const State& state) {
  const record::Baseline& baseline = *state.baseline;
  const std::vector<record::RooflinePoint> points =
      measured_roofline(baseline.evaluation.roofline, baseline.evaluation.sessions);
  std::string text =
      "# round-1\n\n## Hypothesis\n\nNone: this is the kernel to beat.\n\n## Single change\n\nNo code change.\n\n";
  text += "## Results\n\n" + validation(state, state.baseline_at, "full", "rounds/round-1");
  text += shape_table(state, baseline.evaluation, {}) + aggregate(state, points, 1.0);
  text += fmt::format(
      "## Decision\n\nBASELINE\n\n## Attribution\n\n- Noise of a session: {:.2f} %\n"
      "- Smallest decidable gain: about {:.1f} %\n- Representative shapes: {}\n\n",
      100 * baseline.calibration.noise, 100 * baseline.calibration.detectable, join(baseline.representative_labels));
  text += "## Next direction\n\nThe proposer's first hypothesis, round-2.\n\n";
  return text + transfer_text(state, nullptr);
}

std::string render_round_summary(const State& state, const Round& round) {
  const record::RoundSummary summary = summarise(round);
  const record::Decision& decision = *round.decision;
  const std::string folder = fmt::format("rounds/round-{}", round.number);
  std::string text =
      fmt::format("# round-{}\n\n## Hypothesis\n\n{}\n## Single change\n\n{}\n## Results\n\n", round.number,
                  hypothesis_text(summary.hypothesis, summary.proposer), change_text(summary));
  text += validation(state, round.decided, level_of(round), folder);
  if (round.last().evaluated) text += shape_table(state, round.last().evaluated->evaluation, decision.effects);
  text += aggregate(state, points_of(state, round), summary.suite_ratio);
  text += fmt::format("## Decision\n\n{}: {}\n\n{}\n- Evidence: {:.4g} of {:.4g} needed\n- Plain rule: {}\n\n",
                      state_word(round, "ROLLED BACK"), decision.reason, gate_table(decision), decision.evidence,
                      decision.needed, decision.plain_rule);
  text +=
      fmt::format("## Attribution\n\n{} ({}), category {}\n\n## Next direction\n\n{}\n\n", summary.hypothesis.mechanism,
                  summary.hypothesis.title, summary.hypothesis.category, next_direction(summary.state));
  if (summary.state == record::RoundState::kRolledBack) text += rollback_text(summary, decision);
  return text + transfer_text(state, &round);
}

}  // namespace ridge::campaign
