// bench: implementations and candidates over cases, by the same engine that campaigns decide with.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "evaluate/tasks.h"
#include "stats/session.h"
#include "stats/summary.h"

namespace ridge::evaluate {
namespace {

using measure::Arm;
using record::Outcome;

constexpr double kConfidence = 0.95;
constexpr std::int64_t kQuadsPerSession = 2, kLaunches = 3;
constexpr int kMaxSessions = 6;
constexpr double kFullCheckFlop = 4e9;  // the fp64 reference of more than this takes many seconds

// What was collected about one subject on one problem.
struct Collected {
  std::vector<double> samples, versus_samples, log_ratios;
  std::optional<Failure> failure;
  double wall = 0;  // of the last session
};

void fill_row(const Job& job, const ops::Operator& op, const ops::Problem& problem, const std::vector<double>& samples,
              record::BenchRow& row) {
  row.samples = samples;
  if (samples.empty()) return;
  row.median = stats::median(samples);
  row.p10 = stats::quantile(samples, 0.1);
  row.p90 = stats::quantile(samples, 0.9);
  row.min = stats::min(samples);
  const record::Cost cost = op.cost(problem);
  row.flops = cost.flop / row.median;
  row.bandwidth = cost.bytes / row.median;
  if (const auto limits = limits_of(job, problem)) {
    row.roofline_fraction = roofline::place(row.label, cost, *limits, row.median).fraction;
  }
}

class Bench {
 public:
  Bench(const Job& job, const ops::Operator& op) : job_(job), op_(op) {}

  // One more session of `subject` against `versus` (or against itself) on one problem.
  void session(const Subject& versus, const Subject& subject, const ops::Problem& problem, int index, Collected& into) {
    SessionOptions options;
    options.index = index;
    options.role = "bench";
    options.quads = into.wall > 2.0 ? 1 : kQuadsPerSession;
    options.launches = into.wall > 4.0 ? 1 : kLaunches;
    options.full_first_check = index == 0 && op_.cost(problem).flop <= kFullCheckFlop;
    const bool paired = &versus != &subject;
    const SessionResult result = run_session(versus, subject, op_, {problem}, job_.harness, options);
    into.wall = result.session.guards.contains("wall") ? result.session.guards.at("wall") : 0;
    if (result.failure) {
      into.failure = result.failure->failure;
      if (paired && result.failure->arm == Arm::kIncumbent) {
        into.failure =
            Failure{Outcome::kHarnessFault, fmt::format("{}: {}", versus.name, result.failure->failure.detail)};
      }
      return;
    }
    const record::ShapeSamples& shape = result.session.shapes[0];
    append(into.samples, latencies(shape, Arm::kCandidate));
    append(paired ? into.versus_samples : into.samples, latencies(shape, Arm::kIncumbent));
    for (const record::Quad& quad : shape.quads) {
      if (const auto ratio = stats::quad_log_ratio(quad.order, quad.blocks)) into.log_ratios.push_back(*ratio);
    }
  }

 private:
  static void append(std::vector<double>& to, const std::vector<double>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }
  const Job& job_;
  const ops::Operator& op_;
};

void fill_ratio(const Collected& collected, record::BenchRow& row) {
  if (collected.log_ratios.empty()) return;
  const stats::Interval interval = stats::sign_interval(collected.log_ratios, kConfidence);
  row.ratio = std::exp(stats::hodges_lehmann(collected.log_ratios));
  row.ratio_low = std::exp(interval.low);
  row.ratio_high = std::exp(interval.high);
}

record::BenchRow bench_one(const Job& job, const ops::Operator& op, const NamedSubject& named, const Subject* versus,
                           const ops::Problem& problem, double budget, std::vector<double>& versus_samples) {
  record::BenchRow row;
  row.subject = named.subject.name;
  row.label = problem.problem_case.label();
  const auto fail = [&](Outcome outcome, std::string detail) {
    row.outcome = outcome;
    row.detail = std::move(detail);
    return row;
  };
  if (!named.build_error.empty()) return fail(Outcome::kCompile, named.build_error);
  if (job.remaining() <= 0.05 * job.request.time_limit)
    return fail(Outcome::kAmbiguous, "not measured: the time limit was reached");
  Bench bench(job, op);
  Collected collected;
  const double start = job.elapsed();
  for (int index = 0; index < kMaxSessions && !collected.failure; ++index) {
    if (index > 0 && job.elapsed() - start + collected.wall > budget) break;
    bench.session(versus != nullptr ? *versus : named.subject, named.subject, problem, index, collected);
  }
  if (collected.failure) return fail(collected.failure->outcome, collected.failure->detail);
  fill_row(job, op, problem, collected.samples, row);
  if (versus != nullptr) fill_ratio(collected, row);
  versus_samples = std::move(collected.versus_samples);
  return row;
}

}  // namespace

Status bench(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(bound, bind_cases(job.request.cases, ops::CaseSet::kBench));
  RIDGE_TRY(subjects, subjects_of(job, *bound.op));
  std::optional<Subject> versus;
  if (job.request.versus) {
    RIDGE_TRY(implementation, ops::find_implementation(*bound.op, *job.request.versus));
    versus = Subject{implementation->name, {}, implementation};
    std::erase_if(subjects, [&](const NamedSubject& named) { return named.subject.implementation == implementation; });
    if (subjects.empty()) subjects.push_back({*versus, {}});
  }
  const double total = static_cast<double>(bound.problems.size() * subjects.size());
  double done = 0;
  for (const ops::Problem& problem : bound.problems) {
    std::map<std::string, std::vector<double>> versus_samples;
    const bool pairable = versus && !refusal(*versus, problem);
    std::vector<double> of_versus;
    for (const NamedSubject& named : subjects) {
      job.progress("measuring", fmt::format("{}, {}", named.subject.name, problem.problem_case.label()), done / total);
      const double share = (job.request.time_limit > 0 ? 0.9 * job.remaining() : 4.0 * (total - done)) / (total - done);
      done += 1;
      if (refusal(named.subject, problem)) continue;
      std::vector<double> samples;
      response.bench.push_back(
          bench_one(job, *bound.op, named, pairable ? &*versus : nullptr, problem, std::min(share, 6.0), samples));
      of_versus.insert(of_versus.end(), samples.begin(), samples.end());
    }
    if (of_versus.empty()) continue;
    record::BenchRow row;
    row.subject = versus->name;
    row.label = problem.problem_case.label();
    fill_row(job, *bound.op, problem, of_versus, row);
    row.ratio = row.ratio_low = row.ratio_high = 1.0;
    response.bench.push_back(std::move(row));
  }
  return ok_status();
}

}  // namespace ridge::evaluate
