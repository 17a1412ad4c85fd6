#include "service/bench.h"

#include "base/clock.h"
#include "base/error.h"
#include "service/duration.h"
#include "service/worker_call.h"

namespace ridge::service {
namespace {

// Everything that can be refused is, before anything is measured.
Result<record::WorkerRequest> request_of(const Context& context, const BenchRequest& options) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kBench;
  request.protocol.mode = options.mode;
  if (options.mode != "cold" && options.mode != "warm") {
    return with_hint(invalid("--mode {} is unknown", options.mode), "use cold or warm");
  }
  constexpr std::int64_t kMostSamples = 100'000;
  if (options.samples < 0 || options.samples > kMostSamples) {
    return invalid("--samples {} must be between 1 and {}", options.samples, kMostSamples);
  }
  if (!(options.min_time >= 0 && options.min_time <= 3600)) {
    return invalid("--min-time {} must be between 0 and 3600 seconds", options.min_time);
  }
  request.samples = options.samples;
  request.min_time = options.min_time;
  if (!options.versus.empty()) request.versus = options.versus;
  if (!options.budget.empty()) {
    RIDGE_TRY(limit, parse_duration(options.budget));
    request.time_limit = limit;
  }
  RIDGE_CHECK_OK(fill_subjects(context, options.subjects, request));
  RIDGE_TRY(cases, cases_of(context, options.subjects.op, options.subjects.words));
  request.cases = std::move(cases);
  return request;
}

}  // namespace

Result<record::BenchReport> bench_subjects(const Context& context, const BenchRequest& options) {
  RIDGE_TRY(request, request_of(context, options));
  RIDGE_TRY(ceilings, known_ceilings(context, {backend_of(request), options.subjects.threads}));
  request.ceilings = ceilings;
  record::BenchReport report;
  report.ridge = context.version;
  report.created = format_minute(SystemClock().unix_time());
  report.protocol = request.protocol;
  report.ceilings = request.ceilings;
  report.versus = options.versus;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  if (response.environment) report.environment = *response.environment;
  mark_seed(options.subjects, report.environment);
  report.bench = std::move(response.bench);
  return report;
}

}  // namespace ridge::service
