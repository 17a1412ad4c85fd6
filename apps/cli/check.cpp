// ridge check: is an implementation, or a candidate source, right?
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/process.h"
#include "record/json.h"
#include "say.h"
#include "subcommands.h"
#include "subjects.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

struct CheckOptions {
  SubjectOptions subjects;
  bool all = false;
  std::optional<std::int64_t> seed;
};

enum class RowVerdict { kPassed, kFailed, kLeftOut };
RowVerdict verdict_of(const record::CheckRow& row) {
  switch (row.outcome) {
    case record::Outcome::kPass: return RowVerdict::kPassed;
    case record::Outcome::kNotClaimed:
    case record::Outcome::kDeclined: return RowVerdict::kLeftOut;
    default: return RowVerdict::kFailed;
  }
}

// Adds up over the rows of one subject, or of all.
struct Totals {
  std::int64_t passed = 0, failed = 0, not_claimed = 0, declined = 0, families = 0, calls = 0, compared = 0;
  double worst = 0;

  void add(const record::CheckRow& row) {
    passed += verdict_of(row) == RowVerdict::kPassed ? 1 : 0;
    failed += verdict_of(row) == RowVerdict::kFailed ? 1 : 0;
    not_claimed += row.outcome == record::Outcome::kNotClaimed ? 1 : 0;
    declined += row.outcome == record::Outcome::kDeclined ? 1 : 0;
    families = std::max(families, row.families);
    calls += row.verified_calls;
    compared += row.compared;
    worst = std::max(worst, row.max_error_ratio);
  }
};

Totals totals_of(const std::vector<record::CheckReport>& reports) {
  Totals totals;
  for (const record::CheckReport& report : reports) {
    for (const record::CheckRow& row : report.rows) totals.add(row);
  }
  return totals;
}

// The command that repeats the check of one row.
std::string command_of(const CheckOptions& options, const std::string& subject, const record::CheckRow& row) {
  const SubjectOptions& asked = options.subjects;
  std::string command = fmt::format("ridge check {}", asked.op);
  command += row.label == "build" ? "" : " " + row.label;
  const auto source = std::ranges::find_if(asked.candidates, [&](const std::string& path) {
    return std::filesystem::path(path).stem().string() == subject;
  });
  if (source != asked.candidates.end()) {
    command += " --candidate " + quote_command({*source});
    for (const std::string& define : asked.defines) command += " -D " + quote_command({define});
  } else {
    command += " --impl " + subject;
  }
  if (asked.threads != 1) command += fmt::format(" --threads {}", asked.threads);
  return fmt::format("{} --seed {}", command, row.seed);
}

void print_row(const CheckOptions& options, const std::string& subject, const record::CheckRow& row) {
  const RowVerdict verdict = verdict_of(row);
  if (verdict == RowVerdict::kPassed && !options.all) return;
  if (verdict == RowVerdict::kLeftOut && !options.all) return;
  std::string line = fmt::format("  {:<11} {:<14} {}", record::name_of(row.outcome), subject, row.label);
  if (verdict != RowVerdict::kLeftOut) line += fmt::format("  error {:.3f} of allowed", row.max_error_ratio);
  say("{}", painted_lines(line + (row.detail.empty() ? "" : "  " + row.detail) + "\n"));
  if (verdict == RowVerdict::kFailed) say("    repeat it: {}\n", command_of(options, subject, row));
}

// "12 cases passed, 3 failed, 40 not claimed, largest error 0.21 of ...".
void print_subject(const record::CheckReport& report) {
  const Totals totals = totals_of({report});
  say("{}: {} cases, {} passed, {} failed", report.subject, report.rows.size(), totals.passed, totals.failed);
  if (totals.not_claimed > 0) say(", {} not claimed", totals.not_claimed);
  if (totals.declined > 0) say(", {} declined", totals.declined);
  say("; largest error {:.3f} of what its error model allows\n", totals.worst);
  const auto left_out = std::ranges::find_if(
      report.rows, [](const record::CheckRow& row) { return verdict_of(row) == RowVerdict::kLeftOut; });
  if (left_out != report.rows.end()) say("  left out, for instance {}: {}\n", left_out->label, left_out->detail);
}

// What was verified, and how often so much verifying calls a right kernel wrong.
void print_summary(const record::WorkerResponse& response) {
  const Totals totals = totals_of(response.checks);
  std::int64_t seed = 0;
  double rate = 0;
  for (const record::CheckReport& report : response.checks) {
    rate += report.false_alarm_rate;
    for (const record::CheckRow& row : report.rows) seed = row.seed;
  }
  say("verified: {} cases with up to {} families of inputs, {} calls, {} outputs element by element; a right kernel's "
      "errors are taken for a lean in at most {:.1g} of such runs; seed {}\n",
      totals.passed + totals.failed, totals.families, totals.calls, totals.compared, rate, seed);
}

void print(const CheckOptions& options, const record::WorkerResponse& response) {
  for (const record::CheckReport& report : response.checks) {
    for (const record::CheckRow& row : report.rows) print_row(options, report.subject, row);
    print_subject(report);
  }
  const Totals totals = totals_of(response.checks);
  if (totals.passed + totals.failed == 0) return say("nothing was checked\n");
  print_summary(response);
}

int check(const CheckOptions& options) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kCheck;
  request.cases = {record::Case{options.subjects.op, {}}};  // no parameters: the operator's own list of edge cases
  if (!options.subjects.words.empty()) {
    Result<std::vector<record::Case>> cases = cases_of(options.subjects.op, options.subjects.words);
    if (!cases) return fail(cases.error());
    request.cases = std::move(*cases);
  }
  if (const Status filled = fill_subjects(options.subjects, request); !filled) return fail(filled.error());
  request.seed = options.seed;
  const Result<record::WorkerResponse> response = ask_worker(std::move(request));
  if (!response) return fail(response.error());
  if (globals().json) {
    say("{}\n", record::to_pretty(response->checks));
  } else {
    print(options, *response);
  }
  const Totals totals = totals_of(response->checks);
  return totals.failed == 0 && totals.passed > 0 ? kSuccess : kNo;
}

}  // namespace

void define_check(Command root) {
  auto options = std::make_shared<CheckOptions>();
  Command command = root.subcommand("check", "Compare implementations or a candidate with the fp64 reference");
  add_subject_options(command, options->subjects, "Parameters; without any, the operator's edge cases")
      .flag("--all", options->all, "Print the cases that passed and those that were left out, too")
      .option("--seed", options->seed, "Repeats the check that printed this seed (default: a secret one)")
      .example("ridge check gemm", "all implementations on all edge cases")
      .example("ridge check gemm m=129 n=65 k=33 dtype=bf16 --impl cpu_simd", "one case of one implementation")
      .example("ridge check gemm --candidate my_kernel.cpp -D MR=6", "a kernel source of your own")
      .exits({{kNo, "a case failed, or none was checked"}, kUnavailable, kSystem, kInterrupted})
      .json("a list with each subject's cases, their outcome and error")
      .action([options] { return check(*options); });
}

}  // namespace ridge::cli
