// ridge try: one paired look at a candidate, in seconds and outside of any campaign. It decides nothing.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "candidate_file.h"
#include "record/backend.h"
#include "record/campaign_block.h"
#include "record/json.h"
#include "record/kernel_description.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kSeconds = 14.0;     // of building and measuring: all of it stays under 20 s
constexpr double kCallSeconds = 4.0;  // of one call that hangs

struct TryOptions {
  std::string candidate, op, versus;
  std::vector<std::string> words, defines;
  std::int64_t threads = 1;
};

// The operator and the cases that a source says it is for.
struct Subject {
  std::string op;
  std::vector<std::string> cases;
};

Result<Subject> subject_of_source(const TryOptions& options) {
  Subject subject{options.op, options.words};
  RIDGE_TRY(text, read_file(options.candidate));
  RIDGE_TRY(block, record::parse_campaign_block(text));
  if (block && subject.op.empty()) subject.op = block->op;
  if (block && subject.cases.empty() && subject.op == block->op) subject.cases = block->cases;
  if (!subject.op.empty()) return subject;
  RIDGE_TRY(kernel, record::parse_kernel(text));
  if (kernel && !kernel->ops.empty()) subject.op = kernel->ops.front();
  if (!subject.op.empty()) return subject;
  return with_hint(invalid("{} does not say which operator it implements", options.candidate),
                   "name it with --op, for instance --op gemm");
}

Result<std::vector<record::BenchRow>> measure(record::WorkerRequest request, record::Look& look) {
  request.task = record::WorkerTask::kBench;
  RIDGE_TRY(response, ask_worker(std::move(request)));
  if (response.environment) look.environment = std::move(*response.environment);
  std::erase_if(response.bench, [&](const record::BenchRow& row) { return row.subject != look.candidate; });
  return std::move(response.bench);
}

// Over the cases: the mean of the log ratios. Cases have sessions of their own, so half-widths add in quadrature.
void add_up(record::Look& look) {
  double sum = 0, low = 0, high = 0;
  for (const record::BenchRow& row : look.rows) {
    if (row.outcome != record::Outcome::kPass || !row.ratio || !row.ratio_low || !row.ratio_high) return;
    sum += std::log(*row.ratio);
    low += std::pow(std::log(*row.ratio / *row.ratio_low), 2);
    high += std::pow(std::log(*row.ratio_high / *row.ratio), 2);
    look.sessions = look.sessions == 0 ? row.sessions : std::min(look.sessions, row.sessions);
  }
  if (look.rows.empty()) return;
  const double n = static_cast<double>(look.rows.size());
  look.ratio = std::exp(sum / n);
  look.ratio_low = std::exp((sum - std::sqrt(low)) / n);
  look.ratio_high = std::exp((sum + std::sqrt(high)) / n);
}

Result<record::WorkerRequest> request_of(const TryOptions& options, const Subject& subject) {
  record::WorkerRequest request;
  request.protocol.threads = options.threads;
  request.protocol.call_timeout = kCallSeconds;
  request.protocol.build_timeout = kSeconds;
  RIDGE_TRY(cases, cases_of(subject.op, subject.cases));
  request.cases = std::move(cases);
  RIDGE_TRY(candidate, candidate_of(subject.op, options.candidate, options.defines));
  request.backend = candidate.backend;
  request.candidates = {std::move(candidate)};
  return request;
}

Status look_at_candidate(const TryOptions& options, record::WorkerRequest request, record::Look& look) {
  RIDGE_TRY(other, candidate_of(request.candidates[0].op, options.versus, {}));
  if (other.name == look.candidate) other.name = options.versus;
  look.against = other.name;
  if (other.id() == request.candidates[0].id()) {
    return with_hint(invalid("{} and {} are the same kernel", options.candidate, options.versus),
                     "name another one with --vs, or values of its tunables with -D");
  }
  request.versus = other.name;
  request.candidates.push_back(std::move(other));
  request.time_limit = kSeconds;
  RIDGE_TRY(rows, measure(std::move(request), look));
  look.rows = std::move(rows);
  return ok_status();
}

// Cases for which dispatch chooses the same implementation are measured together.
Status look_at_library(const TryOptions& options, const record::WorkerRequest& request, record::Look& look) {
  std::vector<std::string> chosen(request.cases.size(), options.versus);
  if (options.versus.empty()) {
    RIDGE_TRY(names, chosen_for(request.cases, request.backend));
    chosen = std::move(names);
  }
  std::map<std::string, std::vector<record::Case>> groups;
  for (std::size_t i = 0; i < chosen.size(); ++i) groups[chosen[i]].push_back(request.cases[i]);
  for (const auto& [name, cases] : groups) {
    look.against += (look.against.empty() ? "" : ", ") + name;
    record::WorkerRequest part = request;
    part.cases = cases;
    part.versus = name;
    part.time_limit = kSeconds * static_cast<double>(cases.size()) / static_cast<double>(request.cases.size());
    RIDGE_TRY(rows, measure(std::move(part), look));
    look.rows.insert(look.rows.end(), rows.begin(), rows.end());
  }
  return ok_status();
}

void print(const record::Look& look) {
  std::vector<std::vector<std::string>> rows;
  for (const record::BenchRow& row : look.rows) {
    if (row.outcome != record::Outcome::kPass || !row.ratio) {
      say("{}: {} {}\n", row.label, painted_verdict(record::name_of(row.outcome)), row.detail);
      continue;
    }
    rows.push_back({row.label, fmt::format("{:.3f}x", *row.ratio),
                    fmt::format("[{:.3f}, {:.3f}]", row.ratio_low.value_or(0), row.ratio_high.value_or(0)),
                    std::to_string(row.sessions), fmt::format("{:.4g} us", 1e6 * row.median)});
  }
  if (look.ratio) {
    say("{} is {:.3f}x as fast as {} (interval {:.3f} to {:.3f}, {} session{} of each shape, {:.1f} s)\n",
        look.candidate, *look.ratio, look.against, *look.ratio_low, *look.ratio_high, look.sessions,
        look.sessions == 1 ? "" : "s", look.seconds);
  }
  if (!rows.empty()) say("\n{}\n", table({"shape", "speed", "interval", "sessions", "median"}, rows));
  say("A look and no decision: it controls no errors, and looking again until it pleases makes anything faster.\n"
      "`ridge compare` decides; `ridge campaign propose` does in a campaign.\n");
}

int try_candidate(const TryOptions& options) {
  const Result<Subject> subject = subject_of_source(options);
  if (!subject) return fail(subject.error());
  Result<record::WorkerRequest> request = request_of(options, *subject);
  if (!request) return fail(request.error());
  SystemClock clock;
  const double started = clock.monotonic();
  record::Look look;
  look.candidate = request->candidates[0].name;
  std::error_code ignored;
  const bool file = fs::is_regular_file(options.versus, ignored);
  const Status looked =
      file ? look_at_candidate(options, std::move(*request), look) : look_at_library(options, *request, look);
  if (!looked) return fail(looked.error());
  look.seconds = clock.monotonic() - started;
  add_up(look);
  if (globals().json) {
    say("{}\n", record::to_pretty(look));
  } else {
    print(look);
  }
  return look.ratio ? kSuccess : kNo;
}

}  // namespace

void define_try(Command root) {
  auto options = std::make_shared<TryOptions>();
  root.subcommand("try", "One paired look at a kernel source, in under 20 s: no decision")
      .positional("candidate", options->candidate, "The kernel source")
      .positional("case", options->words, "Shapes (default: those that it says it is for, else the operator's own)",
                  false)
      .option("--op OPERATOR", options->op, "The operator that it implements (default: what the source says)")
      .option("--vs NAME", options->versus,
              "Another source, or an implementation of the library (default: what dispatch chooses)")
      .option("-D,--define NAME=VALUE", options->defines, "NAME=VALUE of a tunable of the candidate (repeatable)")
      .option("--threads", options->threads, "CPU threads of one call")
      .example("ridge try mine.cpp --op gemm m=512 n=512 k=512", "against what the library runs there")
      .example("ridge try tiled.cpp --op gemm --vs plain.cpp", "against another source, on the operator's shapes")
      .example("ridge try src/ops/gemm/cpu_plain.cpp -D MR=4 --vs src/ops/gemm/cpu_plain.cpp",
               "a tunable against its default")
      .exits({{kNo, "it does not build, a call was wrong, or nothing could be measured"},
              kUnavailable,
              kSystem,
              kInterrupted})
      .json("the look: ratio with its interval, sessions, and a row per shape with all samples")
      .action([options] { return try_candidate(*options); });
}

}  // namespace ridge::cli
