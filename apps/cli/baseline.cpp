// ridge baseline: the kernel of a workspace checked against the reference and measured; version v0 of its memory.
#include <fmt/format.h>

#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "execute/git.h"
#include "knowledge/memory.h"
#include "record/bench_table.h"
#include "record/json.h"
#include "say.h"
#include "stats/summary.h"
#include "subcommands.h"
#include "worker_call.h"
#include "workspace_file.h"

namespace fs = std::filesystem;

namespace ridge::cli {
namespace {

struct BaselineOptions {
  std::string workspace = ".", budget;
};

Result<std::vector<record::CheckRow>> check(const WorkspaceSubject& subject) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kCheck;
  request.cases = subject.cases;
  request.candidates = {subject.kernel};
  request.protocol.threads = subject.workspace.threads;
  RIDGE_TRY(response, ask_worker(std::move(request)));
  std::vector<record::CheckRow> rows;
  for (record::CheckReport& report : response.checks) {
    for (record::CheckRow& row : report.rows) rows.push_back(std::move(row));
  }
  return rows;
}

Result<record::BenchReport> measure(const WorkspaceSubject& subject, std::vector<record::Ceiling> ceilings,
                                    const std::string& budget) {
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
  report.ridge = RIDGE_VERSION;
  report.created = format_minute(SystemClock().unix_time());
  report.protocol = request.protocol;
  report.ceilings = std::move(ceilings);
  RIDGE_TRY(response, ask_worker(std::move(request)));
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
                               const record::BenchReport& report, const std::string& commit) {
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
  it.git_commit_hash = commit;
  return it;
}

std::string section_of(const record::BenchReport& report) {
  return fmt::format("Measured {} by `ridge baseline`; samples in `profiles/v0/bench.json`.\n\n{}", report.created,
                     record::bench_markdown(report.bench));
}

Status keep(const fs::path& folder, const record::BenchReport& report) {
  RIDGE_TRY(readme, read_file(folder / "README.md"));
  RIDGE_CHECK_OK(make_directories(folder / "profiles" / "v0"));
  RIDGE_CHECK_OK(write_file_durably(folder / "profiles" / "v0" / "bench.json", record::to_pretty(report) + "\n"));
  return write_file_durably(folder / "README.md", with_section(readme, "Baseline", section_of(report)));
}

Result<record::Iteration> make_baseline(const BaselineOptions& o) {
  const fs::path folder = o.workspace;
  RIDGE_TRY(subject, subject_of(folder));
  RIDGE_TRY(memory, knowledge::Memory::open(folder));
  RIDGE_TRY(all, memory.list(true));
  if (!all.empty()) {
    return with_hint(make_error(ErrorCode::kConflict, "{} has a baseline: {} of {} records", folder.string(),
                                all.front().version, all.size()),
                     "make a new workspace for another kernel; ridge memory summary lists the records");
  }
  // First, because it says whether there is what the kernel needs.
  RIDGE_TRY(ceilings, known_ceilings({subject.kernel.backend, subject.workspace.threads}));
  RIDGE_TRY(checks, check(subject));
  RIDGE_CHECK_OK(all_right(subject, checks));
  RIDGE_TRY(report, measure(subject, std::move(ceilings), o.budget));
  const std::unique_ptr<execute::Git> git = execute::make_git(folder);
  RIDGE_TRY(commit, git->head());
  RIDGE_CHECK_OK(keep(folder, report));
  SystemClock clock;
  RIDGE_TRY(made, memory.create(iteration_of(subject, checks, report, commit), clock));
  RIDGE_CHECK_OK(git->add({"README.md", "profiles/v0/bench.json", "memory/v0.json"}));
  RIDGE_TRY(second, git->commit(fmt::format("Baseline of {}: {:.2f} us", subject.workspace.name,
                                            *made.performance.latency_us)));
  if (!globals().quiet) say(stderr, "committed as {}\n", second.substr(0, 12));
  return made;
}

int baseline(const BaselineOptions& o) {
  const Result<record::Iteration> made = make_baseline(o);
  if (!made) {
    const int code = fail(made.error());
    return made.error().code == ErrorCode::kConflict && made.error().hint.empty() ? static_cast<int>(kNo) : code;
  }
  if (globals().json) {
    say("{}\n", record::to_pretty(*made));
    return kSuccess;
  }
  for (const auto& [shape, latency] : made->performance.latency_us_by_shape) say("{}: {:.2f} us\n", shape, latency);
  say("v0: {:.2f} us, {}\n", *made->performance.latency_us, made->profile_evidence.evidence_summary);
  return kSuccess;
}

}  // namespace

void define_baseline(Command root) {
  auto o = std::make_shared<BaselineOptions>();
  root.subcommand("baseline", "Check and measure the kernel of a workspace: version v0 of its memory")
      .option("--workspace DIR", o->workspace, "Folder that ridge workspace init made")
      .option("--budget TIME", o->budget, "Time for the measurement, for instance 60s")
      .example("ridge baseline --workspace fast_gemm", "right on every case, or exit code 1; then its latency")
      .exits({{kNo, "the kernel is wrong on a case"},
              kUnavailable,
              kSystem,
              {kHeld, "there is a baseline already"},
              kInterrupted})
      .json("the record v0 of the workspace's memory")
      .action([o] { return baseline(*o); });
}

}  // namespace ridge::cli
