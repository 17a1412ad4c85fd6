#include "service/bench.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "record/bench_table.h"
#include "record/json.h"
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

bool has_samples(const record::BenchRow& row) { return row.outcome == record::Outcome::kPass && !row.samples.empty(); }

// Of one machine and one protocol.
Status comparable(const record::BenchReport& now, const record::BenchReport& before) {
  const std::string here = now.environment.fact("cpu.model", "?"), there = before.environment.fact("cpu.model", "?");
  if (here != there) return invalid("the earlier result is from another machine: \"{}\", this is \"{}\"", there, here);
  if (now.protocol.threads != before.protocol.threads || now.protocol.mode != before.protocol.mode) {
    return invalid("the earlier result has threads = {}, mode {}; this one has threads = {}, mode {}",
                   before.protocol.threads, before.protocol.mode, now.protocol.threads, now.protocol.mode);
  }
  return ok_status();
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

bool all_measured(const record::BenchReport& report) {
  bool good = true, measured = false;
  for (const record::BenchRow& row : report.bench) {
    const bool passed = row.outcome == record::Outcome::kPass;
    measured = measured || passed;
    good = good && (passed || row.outcome == record::Outcome::kNotClaimed);
  }
  return good && measured;
}

Result<record::BenchReport> read_bench_report(const std::string& path) {
  RIDGE_TRY(text, read_file(path));
  auto report = record::parse_record<record::BenchReport>(text, path);
  if (!report) return with_hint(report.error(), "give a file that `ridge bench --out FILE.json` wrote");
  return report;
}

Result<std::vector<EarlierRow>> compare_with_earlier(const record::BenchReport& now, const record::BenchReport& before,
                                                     double tolerance) {
  RIDGE_CHECK_OK(comparable(now, before));
  std::vector<EarlierRow> rows;
  for (const record::BenchRow& row : now.bench) {
    if (!has_samples(row)) continue;
    const auto found = std::ranges::find_if(before.bench, [&](const record::BenchRow& one) {
      return has_samples(one) && one.subject == row.subject && one.label == row.label;
    });
    if (found == before.bench.end()) continue;
    EarlierRow& both = rows.emplace_back(EarlierRow{row.label, row.subject, found->median, row.median});
    both.ratio = found->median / row.median;
    both.noise = std::hypot(record::smallest_visible(row), record::smallest_visible(*found));
    both.slower = both.ratio * (1 + both.noise) < 1 - tolerance;
  }
  if (rows.empty()) return invalid("the earlier result has no case and subject in common with this one");
  return rows;
}

}  // namespace ridge::service
