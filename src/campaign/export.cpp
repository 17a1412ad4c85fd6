#include "campaign/export.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "campaign/iterations.h"
#include "campaign/lineage.h"
#include "campaign/project_table.h"
#include "campaign/score.h"
#include "campaign/state.h"
#include "campaign/target.h"
#include "campaign/transition.h"
#include "record/foreign.h"
#include "record/json.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

using record::ForeignIteration;
using record::ForeignRun;

constexpr const char* kMarkerFile = ".ridge-export";  // says of what a folder is an export
constexpr const char* kStepMetric = "step_geomean";
constexpr const char* kTheirHeader =
    "label,B,M,N,K,correct,out_snr,da_snr,db_snr,fwd_ms_mean,fwd_ms_std,bwd_ms_mean,bwd_ms_std,fwd_tflops_mean,"
    "fwd_tflops_std,bwd_tflops_mean,bwd_tflops_std";

// "2026-11-21T07:30:12Z" -> "2026-11-21 07:30"
// --- turbo-view

ForeignRun::Entry run_entry(const State& state, std::int64_t round, const std::string& decision,
                            const std::vector<record::RooflinePoint>& points, const std::string& description,
                            const std::string& time) {
  ForeignRun::Entry entry{.round = round, .decision = decision, .score = {}, .description = description, .at = {}};
  entry.at = minute(time);
  if (const double step = step_score(points, {}).step; std::isfinite(step)) entry.score[kStepMetric] = step;
  if (const std::optional<record::Metric> own = project_metric(state.spec()); own && !points.empty())
    entry.score[own->name] = metric_value(*own, points);
  return entry;
}

ForeignRun run_of(const State& state) {
  const record::CampaignSpec& spec = state.spec();
  ForeignRun run;
  run.campaign = spec.id;
  run.directory = ".";
  run.phase = record::name_of(phase_of(state));
  run.current_round = state.rounds.empty() ? 1 : state.rounds.back().number;
  run.best_round = state.incumbent.round;
  run.started_at = minute(state.created_at);
  run.last_update = minute(state.updated_at);
  run.params = {{"target_op", spec.op},
                {"target_backend", spec.backend},
                {"backend", spec.backend},
                {"target_gpu", spec.gpu},
                {"gpu", spec.gpu},
                {"target_lang", spec.language},
                {"primary_metric", project_metric(spec) ? spec.primary_metric : kStepMetric}};
  run.history.push_back(
      run_entry(state, 1, "BASELINE", baseline_points(state), "the kernel to beat", state.baseline_at));
  run.best_score = run.history.front().score;
  for (const Round& round : state.rounds) {
    if (!round.closed()) continue;
    const record::RoundState came_to = round.state();
    const bool accepted = came_to == record::RoundState::kAccepted;
    const bool measured = came_to != record::RoundState::kNotMeasured;
    run.history.push_back(run_entry(state, round.number, state_word(round, "ROLLED BACK"),
                                    measured ? points_of(state, round) : std::vector<record::RooflinePoint>(),
                                    round.last().proposal.hypothesis.title, round.closed_at));
    if (accepted) run.rollback_streak = 0;
    if (came_to == record::RoundState::kRolledBack) ++run.rollback_streak;
    if (accepted) run.best_score = run.history.back().score;
  }
  return run;
}

// Empty where nothing was judged: a fault of the harness is no wrong result.
std::string their_check(std::string_view ours) { return ours == "PASS" ? "True" : ours == "FAIL" ? "False" : ""; }

// benchmark.csv under the names that the viewer looks for; it knows no other, and shows dashes instead.
std::string their_benchmark(const std::string& ours) {
  constexpr const char* kOurColumns[] = {"label",
                                         "B",
                                         "M",
                                         "N",
                                         "K",
                                         "Check",
                                         "out_snr",
                                         "da_snr",
                                         "db_snr",
                                         "Forward Time (ms)",
                                         "",
                                         "Backward Time (ms)",
                                         "",
                                         "Forward TFLOPS",
                                         "Forward TFLOPS_stddev",
                                         "Backward TFLOPS",
                                         "Backward TFLOPS_stddev"};
  std::size_t at = ours.find("\r\n") + 2;
  const std::vector<std::string> names = csv_cells(std::string_view(ours).substr(0, at - 2));
  std::string csv = std::string(kTheirHeader) + "\r\n";
  for (std::size_t end; (end = ours.find("\r\n", at)) != std::string::npos; at = end + 2) {
    const std::vector<std::string> cells = csv_cells(std::string_view(ours).substr(at, end - at));
    std::string row;
    for (const char* name : kOurColumns) {
      const auto column = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
      const std::string value = column < cells.size() ? cells[column] : "nan";
      row += (row.empty() ? "" : ",") + csv_cell(name == std::string_view("Check") ? their_check(value) : value);
    }
    csv += row + "\r\n";
  }
  return csv;
}

// performance_trend.md under the viewer's name of the eighth column, and with rounds as the integers that it reads.
// Without a backward pass the two columns hold the same number; the viewer reads no row under another name, so the
// unit is TFLOPS whatever bounds the shapes.
std::string their_trend(std::string trend) {
  constexpr std::string_view kColumn = "Combined Step TFLOPS", kRound = "\n| round-";
  trend.replace(trend.find(kColumn), kColumn.size(), "Step Geomean TFLOPS");
  for (std::size_t at = 0; (at = trend.find(kRound, at)) != std::string::npos;)
    trend.replace(at, kRound.size(), "\n| ");
  return trend;
}

FileMap turbo_view(const State& state) {
  FileMap files = render_campaign(state);
  // A project's own table under its own header stays as it is, beside the one that the viewer reads.
  for (auto& [path, content] : files) {
    if (path.ends_with("benchmark.csv") && !path.ends_with("project_benchmark.csv")) content = their_benchmark(content);
  }
  files["logs/performance_trend.md"] = their_trend(render_trend(state, Rate{}));
  const ForeignRun run = run_of(state);
  files[fmt::format("state/{}/run.json", run.campaign)] = record::to_pretty(run) + "\n";
  return files;
}

// --- atrex

std::string their_bottleneck(const std::string& ours) {
  return ours == "compute" || ours == "memory" ? ours + "_bound" : ours;
}

ForeignIteration::Performance foreign_performance_of(const std::vector<record::RooflinePoint>& points) {
  ForeignIteration::Performance performance;
  if (points.empty()) return performance;
  std::vector<double> latencies;
  for (const record::RooflinePoint& point : points) {
    performance.by_shape[point.label] = point.latency * 1e6;
    latencies.push_back(point.latency * 1e6);
  }
  performance.latency_us = stats::geomean(latencies);
  performance.tflops = geomean_rate(points, {});
  const bool compute = std::all_of(points.begin(), points.end(), [](const auto& p) { return p.bound == "compute"; });
  const bool memory = std::all_of(points.begin(), points.end(), [](const auto& p) { return p.bound == "memory"; });
  if (compute) performance.compute_percent = 100 * geomean_efficiency(points);
  if (memory) performance.memory_percent = 100 * geomean_efficiency(points);
  return performance;
}

// The verdicts of that layout, and a word of its own for a round that has none.
std::string gate_word(const Round& round) {
  switch (round.state()) {
    case record::RoundState::kAccepted: return "PASS";
    case record::RoundState::kNotSettled: return "NOT_SETTLED";
    case record::RoundState::kNotMeasured: return "NOT_MEASURED";
    default: return round.decision->outcome == record::Outcome::kHang ? "TIMEOUT_FAIL" : "FAIL";
  }
}

// PASS for a candidate that was checked and found right, and for no other.
std::string correctness_word(const Round& round, record::Outcome outcome) {
  using record::Outcome;
  if (outcome == Outcome::kHang) return "TIMEOUT_FAIL";
  const std::optional<record::Evaluated>& evaluated = round.last().evaluated;
  if (!evaluated || evaluated->evaluation.checks.empty()) return settles(outcome) ? "FAIL" : "NOT_MEASURED";
  const std::vector<record::CheckRow>& checks = evaluated->evaluation.checks;
  const bool right = std::all_of(checks.begin(), checks.end(),
                                 [](const record::CheckRow& row) { return row.outcome == Outcome::kPass; });
  return right && outcome != Outcome::kCheat ? "PASS" : "FAIL";
}

ForeignIteration foreign_iteration_of(const State& state, const Round& round) {
  const record::RoundSummary summary = summarise(round);
  const record::Hypothesis& h = summary.hypothesis;
  ForeignIteration one;
  one.timestamp = round.closed_at;
  if (summary.state != record::RoundState::kNotMeasured)
    one.performance = foreign_performance_of(points_of(state, round));
  one.optimization = {h.category, h.title, fmt::format("{:+.1f} %", 100 * h.expected_gain), {}};
  for (const std::string& risk : h.risks) one.optimization.risks += (one.optimization.risks.empty() ? "" : "; ") + risk;
  one.profile_evidence = {"ridge", summary.reason, h.reasoning, their_bottleneck(h.bottleneck)};
  one.correctness.status = correctness_word(round, summary.outcome);
  one.quality_gate.result = gate_word(round);
  for (const record::OpenDirection& open : iteration_of(state, round).open_directions)
    one.open_directions.push_back({open.direction, open.rationale});
  if (!summary.accepted) one.quality_gate.reason = summary.reason;
  if (round.committed && !round.committed->commit.empty()) one.commit = round.committed->commit;
  return one;
}

ForeignIteration baseline_iteration(const State& state) {
  ForeignIteration one;
  one.timestamp = state.baseline_at;
  one.performance = foreign_performance_of(baseline_points(state));
  one.optimization = {"baseline", "the kernel to beat", "none", "none"};
  one.profile_evidence = {"ridge", state.baseline->calibration.reason, "", ""};
  one.correctness.status = "PASS";
  one.quality_gate.result = "PASS";
  if (!state.baseline_committed->commit.empty()) one.commit = state.baseline_committed->commit;
  return one;
}

std::string plan_of(const Round& round) {
  const record::Hypothesis& h = round.last().proposal.hypothesis;
  std::string evidence, risks;
  for (const std::string& id : h.evidence) evidence += "- " + cell(id) + "\n";
  for (const std::string& risk : h.risks) risks += "- " + cell(risk) + "\n";
  return fmt::format(
      "## Input Evidence\n\n{}\n{}\n## Search Log\n\n| Source | Query | Finding | Actionability "
      "|\n|---|---|---|---|\n\n"
      "## This Iteration's Optimization Action\n\n{}\n\n## Expected Impact\n\n{:+.1f} %: {}\n\n"
      "## Risks and Rollback\n\n{}- rollback: the last accepted version\n",
      h.reasoning, evidence, h.title, 100 * h.expected_gain, h.verification_signal, risks);
}

std::string readme_of(const State& state) {
  const record::CampaignSpec& spec = state.spec();
  std::string shapes;
  for (const record::Case& one : spec.target_cases) shapes += "- " + cell(one.label()) + "\n";
  return fmt::format(
      "# {}\n\n## Target\n\n- platform: {}\n- kernel: {}\n- language: {}\n- backend: {}\n\n## Inputs\n\n{}\n"
      "## Stop Conditions\n\n- {:.0f} % of the measured ceiling\n\n## Task Context\n\nExported from the campaign {} by "
      "ridge; its journal holds the raw samples.\n",
      spec.id, spec.gpu, spec.op, spec.language, spec.backend, shapes, 100 * spec.efficiency_target, spec.id);
}

FileMap atrex(const State& state) {
  FileMap files;
  files["README.md"] = readme_of(state);
  for (const auto& [path, content] : tree_of(state.incumbent.candidate)) files[path] = content;
  const auto add = [&](std::int64_t round, ForeignIteration one) {
    one.version = fmt::format("v{}", round - 1);
    files[fmt::format("memory/{}.json", one.version)] = record::to_pretty(one) + "\n";
  };
  add(1, baseline_iteration(state));
  for (const Round& round : state.rounds) {
    if (!round.closed()) continue;
    add(round.number, foreign_iteration_of(state, round));
    files[fmt::format("plans/v{}_plan.md", round.number - 1)] = plan_of(round);
  }
  return files;
}

}  // namespace

Result<ExportFormat> export_format(std::string_view name) {
  if (name == "turbo-view") return ExportFormat::kTurboView;
  if (name == "atrex") return ExportFormat::kAtrex;
  return invalid("there is no format \"{}\"; turbo-view and atrex are known", name);
}

Result<FileMap> render_export(const State& state, ExportFormat format) {
  if (!state.baseline_committed) {
    return with_hint(make_error(ErrorCode::kConflict, "the baseline of this campaign is not measured yet"),
                     "export it when its first round is recorded");
  }
  const bool view = format == ExportFormat::kTurboView;
  FileMap files = view ? turbo_view(state) : atrex(state);
  files[kMarkerFile] = fmt::format("{} {}\n", view ? "turbo-view" : "atrex", state.spec().id);
  return files;
}

Status write_export(const std::filesystem::path& directory, const FileMap& files) {
  std::error_code error;
  if (std::filesystem::exists(directory, error) && !std::filesystem::is_empty(directory, error)) {
    const Result<std::string> earlier = read_file(directory / kMarkerFile);
    const auto marker = files.find(kMarkerFile);
    if (!earlier || marker == files.end() || *earlier != marker->second) {
      return with_hint(make_error(ErrorCode::kConflict,
                                  "{} is there, not empty, and no earlier export of this campaign", directory.string()),
                       "name a new folder, or that of an earlier export, which is brought up to date");
    }
  }
  for (const auto& [path, content] : files) {
    const Result<std::string> old = read_file(directory / path);
    if (!old || *old != content) RIDGE_CHECK_OK(write_file_durably(directory / path, content));
  }
  return ok_status();
}

}  // namespace ridge::campaign
