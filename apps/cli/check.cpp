// ridge check: is an implementation, or a candidate source, right?
#include <fmt/format.h>

#include "record/archive.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

struct CheckOptions {
  std::string op;
  std::vector<std::string> words, implementations, defines;
  std::string candidate;
  std::int64_t threads = 1;
  bool all = false;
};

int report(const record::WorkerResponse& response, bool all) {
  std::size_t failures = 0, count = 0;
  for (const record::CheckReport& subject : response.checks) {
    std::size_t bad = 0;
    double worst = 0;
    for (const record::CheckRow& row : subject.rows) {
      if (row.outcome != record::Outcome::kPass) ++bad;
      worst = std::max(worst, row.max_error_ratio);
      if (all || row.outcome != record::Outcome::kPass) {
        fmt::print("  {:<5} {:<14} {}  error {:.3f} of allowed  {}\n", record::name_of(row.outcome), subject.subject,
                   row.label, row.max_error_ratio, row.detail);
      }
    }
    fmt::print("{}: {} cases, {} failed, largest error {:.3f} of what its error model allows\n", subject.subject,
               subject.rows.size(), bad, worst);
    failures += bad;
    count += subject.rows.size();
  }
  if (count == 0) fmt::print("nothing was checked\n");
  return failures == 0 && count > 0 ? kSuccess : kNo;
}

int check(const CheckOptions& options) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kCheck;
  request.implementations = options.implementations;
  request.protocol.threads = options.threads;
  if (!options.words.empty()) {
    Result<std::vector<record::Case>> cases = cases_of(options.op, options.words);
    if (!cases) return fail(cases.error());
    request.cases = std::move(*cases);
  } else {
    request.cases = {record::Case{options.op, {}}};  // no parameters: the operator's own list of edge cases
  }
  if (!options.candidate.empty()) {
    Result<record::Candidate> candidate = candidate_of(options.op, options.candidate, options.defines);
    if (!candidate) return fail(candidate.error());
    request.candidates.push_back(std::move(*candidate));
  }
  const Result<record::WorkerResponse> response = ask_worker(std::move(request));
  if (!response) return fail(response.error());
  if (!globals().json) return report(*response, options.all);
  fmt::print("{}\n", pretty_json(record::to_json(response->checks)));
  bool good = !response->checks.empty();
  for (const record::CheckReport& subject : response->checks) {
    for (const record::CheckRow& row : subject.rows) good = good && row.outcome == record::Outcome::kPass;
  }
  return good ? kSuccess : kNo;
}

}  // namespace

void define_check(Command root) {
  auto options = std::make_shared<CheckOptions>();
  root.subcommand("check", "Compare implementations or a candidate with the fp64 reference")
      .positional("operator", options->op, "Operator, for instance gemm")
      .positional("case", options->words, "Parameters; without any, the operator's edge cases", false)
      .option("--impl", options->implementations, "Only this implementation (repeatable)")
      .option("--candidate", options->candidate, "Check this candidate source instead")
      .option("-D,--define", options->defines, "NAME=VALUE of a tunable of the candidate (repeatable)")
      .option("--threads", options->threads, "CPU threads of one call")
      .flag("--all", options->all, "Print the cases that passed, too")
      .example("ridge check gemm", "all implementations on all edge cases")
      .example("ridge check gemm m=129 n=65 k=33 dtype=bf16 --impl cpu_simd", "one case of one implementation")
      .example("ridge check gemm --candidate my_kernel.cpp -D MR=6", "a kernel source of your own")
      .action([options] { return check(*options); });
}

}  // namespace ridge::cli
