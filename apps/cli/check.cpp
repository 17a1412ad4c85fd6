// ridge check: is an implementation, or a candidate source, right?
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/process.h"
#include "say.h"
#include "service/check.h"
#include "subcommands.h"
#include "subjects.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

using service::RowVerdict;
using service::verdict_of;

struct CheckOptions {
  service::CheckRequest request;
  bool all = false;
};

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
  const service::Subjects& asked = options.request.subjects;
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
void print_summary(const std::vector<record::CheckReport>& reports) {
  const Totals totals = totals_of(reports);
  std::int64_t seed = 0;
  double rate = 0;
  for (const record::CheckReport& report : reports) {
    rate += report.false_alarm_rate;
    for (const record::CheckRow& row : report.rows) seed = row.seed;
  }
  if (totals.passed == 0) return say("verified: nothing, no case passed; seed {}\n", seed);
  say("verified: {} cases with up to {} families of inputs, {} calls, {} outputs element by element; a right kernel's "
      "errors are taken for a lean in at most {:.1g} of such runs; seed {}\n",
      totals.passed + totals.failed, totals.families, totals.calls, totals.compared, rate, seed);
}

void print(const CheckOptions& options, const std::vector<record::CheckReport>& reports) {
  for (const record::CheckReport& report : reports) {
    for (const record::CheckRow& row : report.rows) print_row(options, report.subject, row);
    print_subject(report);
  }
  const Totals totals = totals_of(reports);
  if (totals.passed + totals.failed == 0) return say("nothing was checked\n");
  print_summary(reports);
}

int check(const Context& context, const CheckOptions& options) {
  const auto reports = service::check_subjects(context, options.request);
  if (!reports) return fail(reports.error());
  if (!globals().json) print(options, *reports);
  const int code = service::all_passed(*reports) ? kSuccess : kNo;
  return globals().json ? print_json(*reports, code) : code;
}

}  // namespace

void define_check(Command root) {
  auto options = std::make_shared<CheckOptions>();
  Command command = root.subcommand("check", "Compare implementations or a candidate with the fp64 reference");
  add_subject_options(command, options->request.subjects, "Parameters; without any, the operator's edge cases")
      .flag("--all", options->all, "Print the cases that passed and those that were left out, too")
      .option("--seed", options->request.seed, "Repeats the check that printed this seed (default: a secret one)")
      .example("ridge check gemm", "all implementations on all edge cases")
      .example("ridge check gemm m=129 n=65 k=33 dtype=bf16 --impl cpu_simd", "one case of one implementation")
      .example("ridge check gemm --candidate my_kernel.cpp -D MR=6", "a kernel source of your own")
      .exits({{kNo, "a case failed, or none was checked"}, kUnavailable, kSystem, kInterrupted})
      .json("a list with each subject's cases, their outcome and error")
      .action([options](const Context& context) { return check(context, *options); });
}

}  // namespace ridge::cli
