#include "service/look.h"

#include <cmath>
#include <filesystem>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "record/backend.h"
#include "record/campaign_block.h"
#include "record/kernel_description.h"
#include "service/candidate_file.h"
#include "service/worker_call.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

constexpr double kSeconds = 14.0;     // of building and measuring: all of it stays under 20 s
constexpr double kCallSeconds = 4.0;  // of one call that hangs

// The operator and the cases that a source says it is for.
struct Named {
  std::string op;
  std::vector<std::string> cases;
};

Result<Named> subject_of_source(const LookRequest& options) {
  Named subject{options.op, options.words};
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

Result<std::vector<record::BenchRow>> measure(const Context& context, record::WorkerRequest request,
                                              record::Look& look) {
  request.task = record::WorkerTask::kBench;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
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

Result<record::WorkerRequest> request_of(const Context& context, const LookRequest& options, const Named& subject) {
  record::WorkerRequest request;
  request.protocol.threads = options.threads;
  request.protocol.call_timeout = kCallSeconds;
  request.protocol.build_timeout = kSeconds;
  RIDGE_TRY(cases, cases_of(context, subject.op, subject.cases));
  request.cases = std::move(cases);
  RIDGE_TRY(candidate, candidate_of(context, subject.op, options.candidate, options.defines));
  request.backend = candidate.backend;
  request.candidates = {std::move(candidate)};
  return request;
}

Status look_at_candidate(const Context& context, const LookRequest& options, record::WorkerRequest request,
                         record::Look& look) {
  RIDGE_TRY(other, candidate_of(context, request.candidates[0].op, options.versus, {}));
  if (other.name == look.candidate) other.name = options.versus;
  look.against = other.name;
  if (other.id() == request.candidates[0].id()) {
    return with_hint(invalid("{} and {} are the same kernel", options.candidate, options.versus),
                     "name another one with --vs, or values of its tunables with -D");
  }
  request.versus = other.name;
  request.candidates.push_back(std::move(other));
  request.time_limit = kSeconds;
  RIDGE_TRY(rows, measure(context, std::move(request), look));
  look.rows = std::move(rows);
  return ok_status();
}

// Cases for which dispatch chooses the same implementation are measured together.
Status look_at_library(const Context& context, const LookRequest& options, const record::WorkerRequest& request,
                       record::Look& look) {
  std::vector<std::string> chosen(request.cases.size(), options.versus);
  if (options.versus.empty()) {
    RIDGE_TRY(names, chosen_for(context, request.cases, request.backend));
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
    RIDGE_TRY(rows, measure(context, std::move(part), look));
    look.rows.insert(look.rows.end(), rows.begin(), rows.end());
  }
  return ok_status();
}

}  // namespace

Result<record::Look> look_at(const Context& context, const LookRequest& options) {
  RIDGE_TRY(subject, subject_of_source(options));
  RIDGE_TRY(request, request_of(context, options, subject));
  SystemClock clock;
  const double started = clock.monotonic();
  record::Look look;
  look.candidate = request.candidates[0].name;
  std::error_code ignored;
  const bool file = fs::is_regular_file(options.versus, ignored);
  RIDGE_CHECK_OK(file ? look_at_candidate(context, options, std::move(request), look)
                      : look_at_library(context, options, request, look));
  look.seconds = clock.monotonic() - started;
  add_up(look);
  return look;
}

}  // namespace ridge::service
