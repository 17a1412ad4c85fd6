// bench: implementations and candidates over cases, by the same calls that campaigns decide with.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "evaluate/bench_case.h"
#include "evaluate/memory_need.h"
#include "evaluate/tasks.h"
#include "stats/summary.h"

namespace ridge::evaluate {
namespace {

using record::BenchRow;
using record::Outcome;

constexpr double kConfidence = 0.95;
constexpr std::int64_t kSamples = 48;
constexpr double kSecondsPerCase = 6.0;   // and subject, without a time limit
constexpr double kFullCheckFlop = 4e9;    // the fp64 reference of more than this takes many seconds
constexpr double kFloorTolerance = 0.05;  // the ceiling is itself a measurement
constexpr double kMemoryShare = 0.4;      // of the available memory
constexpr double kCopies = 3;             // of the operands: the arena, what was written, what came back

void fill_times(const Job& job, const ops::Operator& op, const ops::Problem& problem, const BenchSamples& collected,
                BenchRow& row) {
  row.samples = collected.samples;
  row.sessions = static_cast<std::int64_t>(collected.session_log_medians.size());
  row.noise = stats::spread(collected.session_log_medians);
  if (row.samples.empty()) return;
  row.median = stats::median(row.samples);
  row.p10 = stats::quantile(row.samples, 0.1);
  row.p90 = stats::quantile(row.samples, 0.9);
  row.min = stats::min(row.samples);
  const record::Cost cost = op.cost(problem);
  row.flops = cost.flop / row.median;
  row.bandwidth = cost.bytes / row.median;
  const auto limits = limits_of(job, problem);
  const bool has_work = cost.flop > 0 || cost.bytes > 0;  // a case without any is nothing that a roof can bound
  if (!limits || !has_work) return;
  const record::RooflinePoint point = roofline::place(row.label, cost, *limits, row.median);
  row.roofline_fraction = point.fraction;
  if (point.bound == "compute" && point.fraction > 1 + kFloorTolerance) {
    row.outcome = Outcome::kHarnessFault;
    row.detail = fmt::format(
        "audit: {:.4g} s is under the compute floor of {:.4g} s; the ceiling was measured too low (`ridge ceilings` "
        "measures it again), or the time is not real",
        row.median, point.bound_time);
  }
}

void fill_ratio(const BenchSamples& collected, BenchRow& row) {
  if (collected.session_log_ratios.empty()) return;
  const stats::Interval interval = stats::sign_interval(collected.session_log_ratios, kConfidence);
  row.noise = stats::spread(collected.session_log_ratios);
  row.ratio = std::exp(stats::hodges_lehmann(collected.session_log_ratios));
  row.ratio_low = std::exp(interval.low);
  row.ratio_high = std::exp(interval.high);
}

class Bench {
 public:
  Bench(const Job& job, MeasurementBackend& measurement, const BoundCases& bound, std::vector<BuiltSubject> subjects)
      : job_(job), measurement_(measurement), bound_(bound), subjects_(std::move(subjects)) {}

  // Puts the subject that all others are compared with first.
  Status choose_versus(const std::string& name) {
    const auto is_it = [&](const BuiltSubject& one) { return one.subject.name == name; };
    auto found = std::find_if(subjects_.begin(), subjects_.end(), is_it);
    if (found == subjects_.end()) {
      RIDGE_TRY(subject, library_subject(*bound_.op, name));
      subjects_.insert(subjects_.begin(), {std::move(subject), {}, {}});
    } else {
      std::rotate(subjects_.begin(), found, found + 1);
    }
    if (const auto& failure = subjects_[0].failure) return invalid("{} does not build: {}", name, failure->detail);
    paired_ = true;
    return ok_status();
  }

  // Which version of which library ran.
  void name_libraries(record::Environment& machine) const {
    for (const BuiltSubject& named : subjects_) {
      const ops::Implementation* implementation = named.subject.implementation;
      if (implementation == nullptr || !implementation->version) continue;
      if (std::string version = implementation->version(); !version.empty()) {
        machine.facts["library." + implementation->name] = std::move(version);
      }
    }
  }

  void run(std::vector<BenchRow>& rows) {
    const std::size_t total = bound_.problems.size();
    for (std::size_t i = 0; i < total; ++i) {
      const double left = job_.request.time_limit > 0 ? 0.95 * job_.remaining() / static_cast<double>(total - i)
                                                      : kSecondsPerCase * static_cast<double>(subjects_.size());
      bench(bound_.problems[i], left, static_cast<double>(i) / static_cast<double>(total), rows);
    }
  }

 private:
  static BenchRow failed(const ops::Problem& problem, const std::string& name, Outcome outcome, std::string detail) {
    BenchRow row;
    row.subject = name;
    row.label = problem.problem_case.label();
    row.outcome = outcome;
    row.detail = std::move(detail);
    return row;
  }

  void bench(const ops::Problem& problem, double seconds, double done, std::vector<BenchRow>& rows) {
    std::vector<const Subject*> runnable;
    const bool paired = paired_ && !refusal(subjects_[0].subject, problem);
    for (const BuiltSubject& named : subjects_) {
      if (const auto& failure = named.failure) {
        rows.push_back(failed(problem, named.subject.name, failure->outcome, failure->detail));
      } else if (auto why = refusal(named.subject, problem); !why) {
        runnable.push_back(&named.subject);
      } else if (named.subject.candidate != nullptr) {
        rows.push_back(failed(problem, named.subject.name, Outcome::kNotClaimed, std::move(*why)));
      }
    }
    if (runnable.empty()) return;
    if (const auto why = too_large(problem, kCopiesToCall)) {
      for (const Subject* one : runnable) rows.push_back(failed(problem, one->name, Outcome::kHarnessFault, *why));
      return;
    }
    if (job_.remaining() <= 0.02 * job_.request.time_limit) {
      for (const Subject* one : runnable) {
        rows.push_back(failed(problem, one->name, Outcome::kAmbiguous, "not measured: the time limit was reached"));
      }
      return;
    }
    const std::vector<std::vector<const Subject*>> groups = groups_of(problem, runnable, paired);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::vector<std::string> names;
      for (const Subject* one : groups[g]) names.push_back(one->name);
      job_.progress("measuring", fmt::format("{}: {}", problem.problem_case.label(), fmt::join(names, ", ")), done);
      measure(problem, groups[g], seconds / static_cast<double>(groups.size()), paired, g > 0, rows);
    }
  }

  // All together if they fit into memory; otherwise as many at a time as do, each time with the one compared with.
  std::vector<std::vector<const Subject*>> groups_of(const ops::Problem& problem,
                                                     const std::vector<const Subject*>& runnable, bool paired) const {
    const double fits = kMemoryShare * available_memory() / std::max(1.0, kCopies * operand_bytes(problem));
    const std::size_t most = std::max<std::size_t>(paired ? 2 : 1, static_cast<std::size_t>(std::min(fits, 1e6)));
    std::vector<std::vector<const Subject*>> groups;
    for (const Subject* one : runnable) {
      if (groups.empty() || groups.back().size() >= most) {
        groups.emplace_back();
        if (paired && one != runnable[0]) groups.back().push_back(runnable[0]);
      }
      groups.back().push_back(one);
    }
    return groups;
  }

  void measure(const ops::Problem& problem, const std::vector<const Subject*>& group, double seconds, bool paired,
               bool skip_first, std::vector<BenchRow>& rows) {
    BenchCase one(measurement_, job_.request.protocol, *bound_.op, problem, group);
    BenchGoal goal;
    goal.samples = job_.request.samples > 0 ? job_.request.samples : kSamples;
    goal.min_time = job_.request.min_time;
    goal.seconds = seconds;
    goal.full_check = bound_.op->cost(problem).flop <= kFullCheckFlop;
    one.run(goal);
    for (std::size_t i = skip_first && paired ? 1 : 0; i < group.size(); ++i) {
      const BenchSamples& collected = one.collected()[i];
      if (collected.failure) {
        rows.push_back(failed(problem, group[i]->name, collected.failure->outcome, collected.failure->detail));
        continue;
      }
      BenchRow row;
      row.subject = group[i]->name;
      row.label = problem.problem_case.label();
      row.guards = one.guards();
      fill_times(job_, *bound_.op, problem, collected, row);
      if (paired && i > 0) fill_ratio(collected, row);
      if (paired && i == 0) row.ratio = row.ratio_low = row.ratio_high = 1.0;
      rows.push_back(std::move(row));
    }
  }

  const Job& job_;
  MeasurementBackend& measurement_;
  const BoundCases& bound_;
  std::vector<BuiltSubject> subjects_;
  bool paired_ = false;
};

}  // namespace

Status bench(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(bound, bind_cases(job, ops::CaseSet::kBench));
  RIDGE_TRY(subjects, subjects_of(job, *bound.op));
  if (job.request.samples < 0 || job.request.min_time < 0) {
    return invalid("samples = {} and min_time = {} s must not be negative", job.request.samples, job.request.min_time);
  }
  RIDGE_TRY(measurement, make_measurement_backend(job, *bound.op));
  Bench bench(job, *measurement, bound, std::move(subjects));
  if (job.request.versus) RIDGE_CHECK_OK(bench.choose_versus(*job.request.versus));
  bench.run(response.bench);
  response.environment = environment(job);
  bench.name_libraries(*response.environment);
  return ok_status();
}

}  // namespace ridge::evaluate
