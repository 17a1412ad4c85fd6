// screen: many candidates, each looked at briefly; every call verified, nothing ever accepted on these numbers.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "evaluate/memory_need.h"
#include "evaluate/tasks.h"
#include "stats/summary.h"

namespace ridge::evaluate {
namespace {

using record::Outcome;

constexpr int kTimedCalls = 3;
constexpr std::size_t kBuildBatch = 8;

void fail(record::ScreenRow& row, const Failure& failure) {
  row.outcome = failure.outcome;
  row.detail = failure.detail;
  row.gate = failure.gate;
}

double bound_time(const Job& job, const ops::Operator& op, const ops::Problem& problem) {
  const record::Cost cost = op.cost(problem);
  if (const auto limits = limits_of(job, problem)) return roofline::place({}, cost, *limits, 0).bound_time;
  return cost.flop * 1e-12;  // without ceilings the scale is arbitrary and the ranking the same
}

void look(const Job& job, MeasurementBackend& measurement, const ops::Operator& op,
          const std::vector<ops::Problem>& problems, const Subject& subject, record::ScreenRow& row) {
  const std::unique_ptr<Watch> watch = measurement.watch();
  OpenResult opened = measurement.open(subject, op, problems);
  if (!opened) return fail(row, opened.error());
  Launcher& launcher = **opened;
  std::vector<double> fractions;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    std::vector<double> samples;
    for (int call = 0; call <= kTimedCalls; ++call) {
      const LaunchResult result = launcher.launch(i, Depth::kQuick);
      if (!result) {
        const std::string label = problems[i].problem_case.label();
        return fail(row, {result.error().outcome, label + ": " + result.error().detail, result.error().gate});
      }
      if (call > 0) samples.push_back(result->latency);
    }
    row.latencies.push_back(stats::median(samples));
    fractions.push_back(bound_time(job, op, problems[i]) / row.latencies.back());
  }
  if (const Verdict late = launcher.finish(); !late) return fail(row, late.error());
  row.score = stats::geomean(fractions);
}

}  // namespace

// Built in small batches, so that a time limit loses the last batch and not everything.
Status screen(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(bound, bind_cases(job, ops::CaseSet::kTarget));
  RIDGE_CHECK_OK(check_host_memory(job, bound));
  RIDGE_TRY(measurement, make_measurement_backend(job, *bound.op));
  const std::vector<record::Candidate>& all = job.request.candidates;
  for (std::size_t first = 0; first < all.size(); first += kBuildBatch) {
    const std::size_t last = std::min(all.size(), first + kBuildBatch);
    const bool in_time = job.remaining() > 0;
    std::vector<BuiltSubject> builds;
    if (in_time) {
      job.progress("building", fmt::format("{} to {} of {}", first + 1, last, all.size()),
                   static_cast<double>(first) / static_cast<double>(all.size()));
      RIDGE_TRY(built, build_candidates(job, std::span(all).subspan(first, last - first)));
      builds = std::move(built);
    }
    for (std::size_t i = first; i < last; ++i) {
      record::ScreenRow row;
      row.candidate = all[i].id();
      row.defines = all[i].defines;
      if (!in_time || job.remaining() <= 0) {
        fail(row, {Outcome::kAmbiguous, "not measured: the time limit was reached"});
      } else if (const auto& failure = builds[i - first].failure) {
        fail(row, *failure);
      } else {
        job.progress("screening", fmt::format("{} of {}", i + 1, all.size()),
                     static_cast<double>(i) / static_cast<double>(all.size()));
        look(job, *measurement, *bound.op, bound.problems, builds[i - first].subject, row);
      }
      response.screen.push_back(std::move(row));
    }
  }
  return ok_status();
}

}  // namespace ridge::evaluate
