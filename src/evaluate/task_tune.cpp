// tune: which implementation is the fastest that is right, for the bucket of every case, kept in the cache at once.
//
// A processor: dispatch/tune.h. A GPU: all implementations in processes of their own, interleaved, every call verified;
// one whose output is wrong in any call is refused by name and cannot win.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "dispatch/tune.h"
#include "dispatch/tuned.h"
#include "evaluate/bench_case.h"
#include "evaluate/gpu.h"
#include "evaluate/tasks.h"
#include "stats/summary.h"

namespace ridge::evaluate {
namespace {

constexpr double kMargin = 0.03;         // what another one than the default order's first must gain
constexpr double kSecondsPerCase = 4.0;  // without a time limit
constexpr std::int64_t kSamples = 24;    // of every implementation
constexpr double kFullCheckFlop = 4e9;   // the fp64 reference of more than this takes long
constexpr double kLeastSeconds = 0.5;

class Tuning {
 public:
  Tuning(const Job& job, const ops::Operator& op, Backend backend) : job_(job), op_(op), backend_(backend) {}

  Status prepare() {
    const std::filesystem::path cache = job_.request.cache_directory;
    if (cache.empty()) return invalid("the request names no cache_directory for the table");
    RIDGE_CHECK_OK(known_.add_folder(cache / "tuned"));
    if (backend_ == Backend::kCpu) {
      device_ = ops::device_info(Stream::cpu());
      return ok_status();
    }
    RIDGE_TRY(device, gpu_device_info());
    device_ = std::move(device);
    RIDGE_TRY(rig, make_gpu_rig(job_, op_));
    rig_ = std::move(rig);
    return ok_status();
  }

  // What the table says already, unless it is to be measured again.
  [[nodiscard]] const record::TunedChoice* known(const ops::Problem& problem) const {
    return job_.request.again ? nullptr : known_.find(op_, problem, device_);
  }

  Result<record::TunedChoice> tune(const ops::Problem& problem, double seconds) {
    if (backend_ == Backend::kCpu) {
      dispatch::TuneOptions options;
      options.seconds = seconds;
      options.margin = kMargin;
      return dispatch::tune(op_, problem, Stream::cpu(static_cast<int>(job_.request.protocol.threads)), options);
    }
    return tune_on_gpu(problem, seconds);
  }

 private:
  Result<record::TunedChoice> tune_on_gpu(const ops::Problem& problem, double seconds) {
    record::TunedChoice choice;
    choice.device = device_.name;
    choice.bucket = dispatch::bucket_of(op_, problem);
    std::vector<Subject> subjects;
    for (const ops::Implementation& one : op_.implementations) {
      Subject subject{one.name, {}, &one};
      if (one.backend == backend_ && !one.is_reference && !refusal(subject, problem))
        subjects.push_back(std::move(subject));
    }
    // Without the first one nothing is paired: whenever it falls out, the others are measured again.
    while (!subjects.empty()) {
      std::vector<const Subject*> alive;
      for (const Subject& subject : subjects) alive.push_back(&subject);
      BenchCase race(*rig_, job_.request.protocol, op_, problem, alive);
      BenchGoal goal;
      goal.samples = kSamples;
      goal.seconds = seconds;
      goal.full_check = op_.cost(problem).flop <= kFullCheckFlop;
      race.run(goal);
      if (settle(race, subjects, choice)) {
        choice.libraries = dispatch::library_versions(op_, backend_);
        return choice;
      }
    }
    return make_error(ErrorCode::kUnsupported, "{}: nothing can run it on {}{}{}", problem.problem_case.text(),
                      device_.name, choice.refused.empty() ? "" : ": ",
                      choice.refused.empty() ? "" : choice.refused.front());
  }

  // False when the one compared with failed and is out.
  bool settle(const BenchCase& race, std::vector<Subject>& subjects, record::TunedChoice& choice) const {
    const std::vector<BenchSamples>& found = race.collected();
    if (found[0].failure) {
      choice.refused.push_back(fmt::format("{}: {}", subjects[0].name, found[0].failure->detail));
      subjects.erase(subjects.begin());
      return false;
    }
    std::size_t best = 0;
    double gain = 0;
    for (std::size_t i = 1; i < subjects.size(); ++i) {
      if (found[i].failure) {
        choice.refused.push_back(fmt::format("{}: {}", subjects[i].name, found[i].failure->detail));
        continue;
      }
      if (found[i].session_log_ratios.empty()) continue;
      const double log_ratio = stats::median(found[i].session_log_ratios);
      if (log_ratio <= std::max(gain, std::log1p(kMargin))) continue;
      gain = log_ratio;
      best = i;
    }
    choice.implementation = subjects[best].name;
    choice.over = subjects[0].name;
    choice.ratio = std::exp(gain);
    choice.rounds = static_cast<std::int64_t>(found[best].samples.size());
    return true;
  }

  const Job& job_;
  const ops::Operator& op_;
  Backend backend_;
  ops::DeviceInfo device_;
  std::unique_ptr<Rig> rig_;
  dispatch::TunedTable known_;
};

}  // namespace

// A case that cannot be tuned is reported and does not stop the others.
Status tune(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(bound, bind_cases(job, ops::CaseSet::kBench));
  RIDGE_TRY(backend, parse_backend(job.request.backend));
  Tuning tuning(job, *bound.op, backend);
  RIDGE_CHECK_OK(tuning.prepare());
  const std::size_t total = bound.problems.size();
  std::vector<std::string> done;
  for (std::size_t i = 0; i < total; ++i) {
    const ops::Problem& problem = bound.problems[i];
    const std::string bucket = dispatch::bucket_of(*bound.op, problem).text();
    if (std::find(done.begin(), done.end(), bucket) != done.end()) continue;
    done.push_back(bucket);
    if (const record::TunedChoice* known = tuning.known(problem)) {
      response.tuned.push_back(*known);
      continue;
    }
    if (job.remaining() < kLeastSeconds) break;
    job.progress("tuning", fmt::format("{} ({} of {})", problem.problem_case.label(), i + 1, total),
                 static_cast<double>(i) / static_cast<double>(total));
    const double fair = job.remaining() / static_cast<double>(total - i);
    Result<record::TunedChoice> choice = tuning.tune(problem, std::min(kSecondsPerCase, fair));
    if (!choice) {
      record::TunedChoice failed;
      failed.bucket = dispatch::bucket_of(*bound.op, problem);
      failed.refused = {choice.error().text()};
      response.tuned.push_back(std::move(failed));
      continue;
    }
    RIDGE_CHECK_OK(dispatch::keep(*choice, job.request.cache_directory));
    response.tuned.push_back(std::move(*choice));
  }
  response.environment = environment(job);
  return ok_status();
}

}  // namespace ridge::evaluate
