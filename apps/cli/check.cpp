// ridge check: is an implementation, or a candidate source, right?
#include <fmt/format.h>

#include "record/json.h"
#include "subcommands.h"
#include "subjects.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

struct CheckOptions {
  SubjectOptions subjects;
  bool all = false;
};

bool all_passed(const std::vector<record::CheckReport>& reports) {
  std::size_t rows = 0;
  for (const record::CheckReport& report : reports) {
    rows += report.rows.size();
    for (const record::CheckRow& row : report.rows) {
      if (row.outcome != record::Outcome::kPass) return false;
    }
  }
  return rows > 0;
}

void print(const record::WorkerResponse& response, bool all) {
  std::size_t count = 0;
  for (const record::CheckReport& subject : response.checks) {
    std::size_t bad = 0;
    double worst = 0;
    for (const record::CheckRow& row : subject.rows) {
      if (row.outcome != record::Outcome::kPass) ++bad;
      worst = std::max(worst, row.max_error_ratio);
      if (all || row.outcome != record::Outcome::kPass) {
        fmt::print("{}", painted_lines(fmt::format("  {:<5} {:<14} {}  error {:.3f} of allowed  {}\n",
                                                   record::name_of(row.outcome), subject.subject, row.label,
                                                   row.max_error_ratio, row.detail)));
      }
    }
    fmt::print("{}: {} cases, {} failed, largest error {:.3f} of what its error model allows\n", subject.subject,
               subject.rows.size(), bad, worst);
    count += subject.rows.size();
  }
  if (count == 0) fmt::print("nothing was checked\n");
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
  const Result<record::WorkerResponse> response = ask_worker(std::move(request));
  if (!response) return fail(response.error());
  if (globals().json) {
    fmt::print("{}\n", record::to_pretty(response->checks));
  } else {
    print(*response, options.all);
  }
  return all_passed(response->checks) ? kSuccess : kNo;
}

}  // namespace

void define_check(Command root) {
  auto options = std::make_shared<CheckOptions>();
  Command command = root.subcommand("check", "Compare implementations or a candidate with the fp64 reference");
  add_subject_options(command, options->subjects, "Parameters; without any, the operator's edge cases")
      .flag("--all", options->all, "Print the cases that passed, too")
      .example("ridge check gemm", "all implementations on all edge cases")
      .example("ridge check gemm m=129 n=65 k=33 dtype=bf16 --impl cpu_simd", "one case of one implementation")
      .example("ridge check gemm --candidate my_kernel.cpp -D MR=6", "a kernel source of your own")
      .exits({{kNo, "a case failed, or none was checked"}, kUnavailable, kSystem, kInterrupted})
      .json("a list with each subject's cases, their outcome and error")
      .action([options] { return check(*options); });
}

}  // namespace ridge::cli
