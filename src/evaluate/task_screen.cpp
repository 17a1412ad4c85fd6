// screen: many candidates, each looked at briefly, call by call in turn with the incumbent; every call verified,
// nothing ever accepted on these numbers.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "evaluate/look_times.h"
#include "evaluate/memory_need.h"
#include "evaluate/tasks.h"
#include "stats/summary.h"

namespace ridge::evaluate {
namespace {

using record::Outcome;

constexpr int kTimedCalls = 3;
constexpr std::size_t kBuildBatch = 8;
// Those within this share of the fastest are looked at again, for longer: the fastest of many looks is a lucky one.
constexpr double kClose = 0.9;
constexpr std::size_t kFinalists = 4;
constexpr int kCallsOfAFinalist = 8;

// A configuration that is looked at.
struct Contender {
  record::ScreenRow row;
  BuiltSubject built;
  std::vector<LookTimes> shapes;
};

void fail(record::ScreenRow& row, const Failure& failure) {
  row.outcome = failure.outcome;
  row.detail = failure.detail;
  row.gate = failure.gate;
  row.score = 0;
}

double bound_time(const Job& job, const ops::Operator& op, const ops::Problem& problem) {
  const record::Cost cost = op.cost(problem);
  if (const auto limits = limits_of(job, problem)) return roofline::place({}, cost, *limits, 0).bound_time;
  return cost.flop * 1e-12;  // without ceilings the scale is arbitrary and the ranking the same
}

// Looks at configurations of one operator on its target shapes.
class Looker {
 public:
  Looker(const Job& job, const ops::Operator& op, const std::vector<ops::Problem>& problems,
         MeasurementBackend& measurement)
      : job_(job), op_(op), problems_(problems), measurement_(measurement), of_incumbent_(problems.size()) {}

  // From here on all are looked at in turn with it.
  void keep_incumbent(const Subject& subject) {
    OpenResult opened = measurement_.open(subject, op_, problems_);
    if (opened) incumbent_ = std::move(*opened);
  }

  void look(Contender& one, int calls) {
    const std::unique_ptr<Watch> watch = measurement_.watch();
    OpenResult opened = measurement_.open(one.built.subject, op_, problems_);
    if (!opened) return fail(one.row, opened.error());
    one.shapes.resize(problems_.size());
    for (std::size_t i = 0; i < problems_.size(); ++i) {
      for (int call = 0; call <= calls; ++call) {
        const bool warm = call > 0, before = call % 2 == 0;
        std::optional<double> beside = warm && before ? call_incumbent(i) : std::nullopt;
        const LaunchResult result = (*opened)->launch(i, Depth::kQuick);
        if (!result) {
          const std::string label = problems_[i].problem_case.label();
          return fail(one.row, {result.error().outcome, label + ": " + result.error().detail, result.error().gate});
        }
        if (warm && !before) beside = call_incumbent(i);
        if (warm) one.shapes[i].add(result->latency, beside);
      }
    }
    if (const Verdict late = (*opened)->finish(); !late) fail(one.row, late.error());
  }

  void rate(Contender& one) const {
    if (one.row.outcome != Outcome::kPass) return;
    one.row.latencies.clear();
    for (std::size_t i = 0; i < problems_.size(); ++i) {
      const std::optional<double> latency = one.shapes[i].latency(of_incumbent_[i]);
      if (!latency) {
        one.row.latencies.clear();
        return fail(one.row, {Outcome::kHarnessFault, "every call was over before what is taken off its time"});
      }
      one.row.latencies.push_back(*latency);
    }
    one.row.score = score(one.row.latencies);
  }

  // The incumbent's own row, of all its calls whose time is known; nothing where it was not looked at.
  [[nodiscard]] std::optional<record::ScreenRow> incumbent_row(const record::Candidate& incumbent) const {
    if (!incumbent_) return std::nullopt;
    record::ScreenRow row;
    row.candidate = incumbent.id();
    row.defines = incumbent.defines;
    for (const std::vector<double>& calls : of_incumbent_) {
      const std::optional<double> latency = known_median(calls);
      if (!latency) return std::nullopt;
      row.latencies.push_back(*latency);
    }
    row.score = score(row.latencies);
    return row;
  }

 private:
  [[nodiscard]] double score(const std::vector<double>& latencies) const {
    std::vector<double> fractions;
    for (std::size_t i = 0; i < problems_.size(); ++i)
      fractions.push_back(bound_time(job_, op_, problems_[i]) / latencies[i]);
    return stats::geomean(fractions);
  }

  // One that fails is given up: the looks are then on their own.
  std::optional<double> call_incumbent(std::size_t shape) {
    if (!incumbent_) return std::nullopt;
    const LaunchResult result = incumbent_->launch(shape, Depth::kQuick);
    if (!result) {
      incumbent_.reset();
      return std::nullopt;
    }
    of_incumbent_[shape].push_back(result->latency);
    return result->latency;
  }

  const Job& job_;
  const ops::Operator& op_;
  const std::vector<ops::Problem>& problems_;
  MeasurementBackend& measurement_;
  std::unique_ptr<Launcher> incumbent_;
  std::vector<std::vector<double>> of_incumbent_;
};

// Those close to the fastest, if there are several.
std::vector<Contender*> finalists(std::vector<Contender>& all) {
  std::vector<Contender*> close;
  for (Contender& one : all) {
    if (one.row.outcome == Outcome::kPass) close.push_back(&one);
  }
  std::ranges::stable_sort(close, std::ranges::greater(), [](const Contender* one) { return one->row.score; });
  if (close.size() > kFinalists) close.resize(kFinalists);
  std::erase_if(close, [least = close.empty() ? 0.0 : kClose * close.front()->row.score](const Contender* one) {
    return one->row.score < least;
  });
  if (close.size() < 2) close.clear();
  return close;
}

}  // namespace

// Built in small batches, so that a time limit loses the last batch and not everything. The incumbent's row is the
// last, unless it is one of the candidates.
Status screen(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(bound, bind_cases(job, ops::CaseSet::kTarget));
  RIDGE_CHECK_OK(check_host_memory(job, bound));
  RIDGE_TRY(measurement, make_measurement_backend(job, *bound.op));
  Looker looker(job, *bound.op, bound.problems, *measurement);
  const std::vector<record::Candidate>& candidates = job.request.candidates;
  std::vector<BuiltSubject> incumbent;  // outlives its launcher
  if (job.request.incumbent) {
    RIDGE_TRY(built, build_candidates(job, std::span(&*job.request.incumbent, 1)));
    incumbent = std::move(built);
    if (!incumbent.front().failure) looker.keep_incumbent(incumbent.front().subject);
  }
  std::vector<Contender> all(candidates.size());
  for (std::size_t first = 0; first < all.size(); first += kBuildBatch) {
    const std::size_t last = std::min(all.size(), first + kBuildBatch);
    const bool in_time = job.remaining() > 0;
    std::vector<BuiltSubject> builds;
    if (in_time) {
      job.progress("building", fmt::format("{} to {} of {}", first + 1, last, all.size()),
                   static_cast<double>(first) / static_cast<double>(all.size()));
      RIDGE_TRY(built, build_candidates(job, std::span(candidates).subspan(first, last - first)));
      builds = std::move(built);
    }
    for (std::size_t i = first; i < last; ++i) {
      Contender& one = all[i];
      one.row.candidate = candidates[i].id();
      one.row.defines = candidates[i].defines;
      if (!in_time || job.remaining() <= 0) {
        fail(one.row, {Outcome::kAmbiguous, "not measured: the time limit was reached"});
        continue;
      }
      one.built = std::move(builds[i - first]);
      if (one.built.failure) {
        fail(one.row, *one.built.failure);
        continue;
      }
      job.progress("screening", fmt::format("{} of {}", i + 1, all.size()),
                   static_cast<double>(i) / static_cast<double>(all.size()));
      looker.look(one, kTimedCalls);
    }
  }
  for (Contender& one : all) looker.rate(one);
  const std::vector<Contender*> close = finalists(all);
  for (Contender* one : close) {
    if (job.remaining() <= 0) break;
    job.progress("screening", fmt::format("the {} fastest again", close.size()), 1.0);
    looker.look(*one, kCallsOfAFinalist);
  }
  for (Contender& one : all) {
    looker.rate(one);
    response.screen.push_back(std::move(one.row));
  }
  if (const auto row = job.request.incumbent ? looker.incumbent_row(*job.request.incumbent) : std::nullopt) {
    const auto same = [&](const record::ScreenRow& other) { return other.candidate == row->candidate; };
    if (std::ranges::none_of(response.screen, same)) response.screen.push_back(*row);
  }
  return ok_status();
}

}  // namespace ridge::evaluate
