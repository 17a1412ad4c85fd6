#include "service/baseline.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "execute/git.h"
#include "execute/project_executor.h"
#include "knowledge/memory.h"
#include "project/project.h"
#include "record/bench_table.h"
#include "record/json.h"
#include "service/duration.h"
#include "service/handoff.h"
#include "service/worker_call.h"
#include "service/workspace_file.h"
#include "stats/summary.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBaselineReport = "baseline_report.md";

Result<std::vector<record::CheckRow>> check_kernel(const Context& context, const WorkspaceSubject& subject) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kCheck;
  request.cases = subject.cases;
  request.candidates = {subject.kernel};
  request.protocol.threads = subject.workspace.threads;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  std::vector<record::CheckRow> rows;
  for (record::CheckReport& report : response.checks) {
    for (record::CheckRow& row : report.rows) rows.push_back(std::move(row));
  }
  return rows;
}

Result<record::BenchReport> measure_kernel(const Context& context, const WorkspaceSubject& subject,
                                           std::vector<record::Ceiling> ceilings, const std::string& budget) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kBench;
  request.cases = subject.cases;
  request.candidates = {subject.kernel};
  request.protocol.threads = subject.workspace.threads;
  if (!budget.empty()) {
    RIDGE_TRY(limit, parse_duration(budget));
    request.time_limit = limit;
  }
  request.ceilings = ceilings;
  record::BenchReport report;
  report.ridge = context.version;
  report.created = format_minute(SystemClock().unix_time());
  report.protocol = request.protocol;
  report.ceilings = std::move(ceilings);
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  if (response.environment) report.environment = *response.environment;
  report.bench = std::move(response.bench);
  for (const record::BenchRow& row : report.bench) {
    if (row.outcome != record::Outcome::kPass || !(row.median > 0))
      return make_error(ErrorCode::kToolFailed, "{}: {}: {}", row.label, record::name_of(row.outcome), row.detail);
  }
  if (report.bench.empty()) return make_error(ErrorCode::kUnsupported, "nothing was measured");
  return report;
}

// The first thing that is wrong with the kernel; an unchecked kernel is not right either.
Status all_right(const WorkspaceSubject& subject, const std::vector<record::CheckRow>& rows) {
  for (const record::CheckRow& row : rows) {
    if (row.outcome == record::Outcome::kPass) continue;
    return make_error(ErrorCode::kConflict, "{} is {} on {}: {}", subject.workspace.kernel,
                      record::name_of(row.outcome), row.label, row.detail);
  }
  return rows.empty()
             ? Status(make_error(ErrorCode::kUnsupported, "no case of {} was checked", subject.workspace.kernel))
             : ok_status();
}

double geomean_of(const std::vector<record::BenchRow>& rows, double record::BenchRow::*value) {
  std::vector<double> values;
  for (const record::BenchRow& row : rows) values.push_back(row.*value);
  return stats::geomean(values);
}

record::Iteration iteration_of(const WorkspaceSubject& subject, const std::vector<record::CheckRow>& checks,
                               const record::BenchReport& report) {
  record::Iteration it;
  it.version = "v0";
  it.performance.latency_us = 1e6 * geomean_of(report.bench, &record::BenchRow::median);
  it.performance.tflops = geomean_of(report.bench, &record::BenchRow::flops) / 1e12;
  it.performance.bandwidth_gbps = geomean_of(report.bench, &record::BenchRow::bandwidth) / 1e9;
  for (const record::BenchRow& row : report.bench) it.performance.latency_us_by_shape[row.label] = 1e6 * row.median;
  it.optimization = {"baseline", "the kernel to beat: " + subject.workspace.kernel, {}, {}};
  it.profile_evidence.tool_used = "ridge baseline";
  it.profile_evidence.evidence_summary =
      fmt::format("{:.1f} % of the measured roofline, geomean of {} cases",
                  100 * geomean_of(report.bench, &record::BenchRow::roofline_fraction), report.bench.size());
  double worst = 0;
  for (const record::CheckRow& row : checks) worst = std::max(worst, std::pow(10.0, -row.snr_db / 20));
  it.correctness = {record::IterationStatus::kPass, std::isfinite(worst) ? std::optional(worst) : std::nullopt};
  it.quality_gate.result = record::IterationStatus::kPass;
  it.references = {{"candidate", subject.kernel.id(), "baseline"},
                   {"file", "profiles/v0/bench.json", "every sample, with the environment"}};
  return it;
}

std::string section_of(const record::BenchReport& report) {
  return fmt::format("Measured {} by `ridge baseline`; samples in `profiles/v0/bench.json`.\n\n{}", report.created,
                     record::bench_markdown(report.bench));
}

// baseline_report.md: what limits the kernel, with the numbers and where they are from.
std::string baseline_text(const record::Workspace& workspace, const record::Iteration& v0,
                          const std::string& performance, const std::string& evidence, const std::string& direction) {
  return fmt::format(
      "# Baseline of {}\n\n## Bound Type\n\n{}\n\n## Performance\n\nMeasured {} by `ridge baseline`: {:.2f} us, "
      "geomean of "
      "{} shapes.\n\n{}\n## Evidence\n\n{}\n\n## Direction\n\n{}\n",
      workspace.name,
      v0.profile_evidence.bottleneck_type == record::Bottleneck::kUnknown
          ? "not profiled yet: `ridge profile`; `ridge roofline` says what would bound it"
          : std::string(record::name_of(v0.profile_evidence.bottleneck_type)),
      v0.timestamp, v0.performance.latency_us.value_or(0), v0.performance.latency_us_by_shape.size(), performance,
      evidence, direction);
}

constexpr const char* kDirection =
    "README.md has the roofline, its stop conditions and the limits of the hardware; `ridge optimize --workspace .` "
    "goes "
    "on from here, and each round leaves `memory/v<N>.json` and `plans/v<N>_plan.md`.";

// v0 and its report, in one commit with the files `also`.
Result<record::Iteration> commit_baseline(const Context& context, const fs::path& folder,
                                          const record::Workspace& workspace, const knowledge::Memory& memory,
                                          record::Iteration v0, const std::string& performance,
                                          const std::string& evidence, std::vector<std::string> also) {
  const std::unique_ptr<execute::Git> git = execute::make_git(folder);
  RIDGE_TRY(commit, git->head());
  v0.git_commit_hash = commit;
  SystemClock clock;
  RIDGE_TRY(made, memory.create(std::move(v0), clock));
  RIDGE_CHECK_OK(
      write_file_durably(folder / kBaselineReport, baseline_text(workspace, made, performance, evidence, kDirection)));
  also.insert(also.end(), {"README.md", "memory/v0.json", kBaselineReport});
  RIDGE_TRY(second,
            git->commit(fmt::format("Baseline of {}: {:.2f} us", workspace.name, *made.performance.latency_us), also));
  context.note("committed as " + second.substr(0, 12));
  return made;
}

// Of a workspace with a reference: its own harness, tried as a project is, and one table.
Result<record::Iteration> reference_baseline(const Context& context, const fs::path& folder,
                                             const record::Workspace& workspace, const knowledge::Memory& memory) {
  RIDGE_TRY(project, project::read_project(folder));
  RIDGE_TRY(tried, try_project(context, project, false));
  if (!tried.ready) {
    const record::HandoffRow& last = tried.rows.back();
    const std::string says = fmt::format("{}: {}: {}", workspace.kernel, last.what, last.detail);
    return tried.unavailable ? make_error(ErrorCode::kUnsupported, "{}", says)
                             : make_error(ErrorCode::kConflict, "{}", says);
  }
  RIDGE_TRY(scratch, TempDir::create("ridge-baseline"));
  RIDGE_TRY(table, execute::look_at_table(project, scratch.path() / "copy" / "a", [&] { return context.stopped(); }));
  RIDGE_TRY(candidate, project::baseline_of(project));
  record::Iteration it;
  it.version = "v0";
  std::vector<double> latencies, rates;
  double worst = std::numeric_limits<double>::infinity();
  for (const project::BenchTableRow& row : table.rows) {
    latencies.push_back(row.seconds());
    rates.push_back(row.metric * project.metric_unit);
    it.performance.latency_us_by_shape[row.label] = 1e6 * row.seconds();
    for (const auto& [column, decibel] : row.noise_db) worst = std::min(worst, decibel);
  }
  it.performance.latency_us = 1e6 * stats::geomean(latencies);
  it.performance.bandwidth_gbps = stats::geomean(rates) / 1e9;
  it.optimization = {"baseline", "the kernel to beat: " + workspace.kernel, {}, {}};
  it.profile_evidence.tool_used = "ridge baseline";
  it.profile_evidence.evidence_summary =
      fmt::format("one process of test_kernel.py; {:.3g} GB/s of compulsory traffic, the platform's bound is {:g}",
                  *it.performance.bandwidth_gbps, project.peak);
  const double error = std::isfinite(worst) ? std::pow(10.0, -worst / 20) : 0.0;
  it.correctness = {record::IterationStatus::kPass, error};
  it.quality_gate.result = record::IterationStatus::kPass;
  it.references = {{"candidate", candidate.id(), "baseline"},
                   {"file", "profiles/v0/table.csv", "the table of one process"}};
  RIDGE_CHECK_OK(make_directories(folder / "profiles" / "v0"));
  RIDGE_CHECK_OK(write_file_durably(folder / "profiles" / "v0" / "table.csv", table.text));
  std::string performance = "| shape | latency us | GB/s |\n|---|---|---|\n";
  for (const project::BenchTableRow& row : table.rows)
    performance += fmt::format("| {} | {:.3f} | {:.4g} |\n", row.label, 1e6 * row.seconds(), row.metric);
  std::string evidence;
  for (const record::HandoffRow& row : tried.rows) evidence += fmt::format("- {}: {}\n", row.what, row.detail);
  evidence +=
      "\nIsolation: the harness owns inputs, outputs and clock, and the kernel runs in its process, which is weaker "
      "than for an operator of Ridgeline; a process that never sees the kernel checks its outputs.";
  return commit_baseline(context, folder, workspace, memory, std::move(it), performance, evidence,
                         {"profiles/v0/table.csv"});
}

Status keep(const fs::path& folder, const record::BenchReport& report) {
  RIDGE_TRY(readme, read_file(folder / "README.md"));
  RIDGE_CHECK_OK(make_directories(folder / "profiles" / "v0"));
  RIDGE_CHECK_OK(write_file_durably(folder / "profiles" / "v0" / "bench.json", record::to_pretty(report) + "\n"));
  return write_file_durably(folder / "README.md", with_section(readme, "Baseline", section_of(report)));
}

}  // namespace

Result<record::Iteration> make_baseline(const Context& context, const BaselineRequest& o) {
  const fs::path folder = o.workspace;
  RIDGE_TRY(workspace, read_workspace(folder));
  RIDGE_TRY(memory, knowledge::Memory::open(folder));
  RIDGE_TRY(all, memory.list(true));
  if (!all.empty()) {
    return with_hint(make_error(ErrorCode::kConflict, "{} has a baseline: {} of {} records", folder.string(),
                                all.front().version, all.size()),
                     "make a new workspace for another kernel; ridge memory summary lists the records");
  }
  if (!workspace.reference.empty()) return reference_baseline(context, folder, workspace, memory);
  RIDGE_TRY(subject, workspace_subject(context, folder));
  // First, because it says whether there is what the kernel needs.
  RIDGE_TRY(ceilings, known_ceilings(context, {subject.kernel.backend, subject.workspace.threads}));
  RIDGE_TRY(checks, check_kernel(context, subject));
  RIDGE_CHECK_OK(all_right(subject, checks));
  RIDGE_TRY(report, measure_kernel(context, subject, std::move(ceilings), o.budget));
  RIDGE_CHECK_OK(keep(folder, report));
  record::Iteration v0 = iteration_of(subject, checks, report);
  const std::string evidence = v0.profile_evidence.evidence_summary + "; every sample is in profiles/v0/bench.json";
  return commit_baseline(context, folder, workspace, memory, std::move(v0), record::bench_markdown(report.bench),
                         evidence, {"profiles/v0/bench.json"});
}

}  // namespace ridge::service
