// tune: which implementation, in which of its configurations, is the fastest that is right, for the bucket of every
// case, kept in the cache at once. In this process, on scratch memory: dispatch/tune.h.
#include <algorithm>

#include "base/error.h"
#include "dispatch/tune.h"
#include "dispatch/tuned.h"
#include "evaluate/memory_need.h"
#include "evaluate/tasks.h"
#include "measure/machine.h"
#include "ops/cuda/device.h"
#include "record/device_limits.h"
#include "record/tuned_folder.h"

namespace ridge::evaluate {
namespace {

constexpr double kSecondsPerCase = 4.0;  // at most
constexpr double kLeastSeconds = 0.25;   // of a case; with less left no other is begun
constexpr double kShareOfFair = 4.0;     // the first cases of a kind compile, most take less than their share

// The buckets of these problems, one problem each: cheap ones first, because a contender that is hopeless there is left
// out of the larger ones of the kind.
std::vector<ops::Problem> one_of_each_bucket(const ops::Operator& op, const std::vector<ops::Problem>& problems) {
  std::vector<ops::Problem> chosen;
  std::vector<std::string> seen;
  for (const ops::Problem& problem : problems) {
    const std::string bucket = dispatch::bucket_of(op, problem).text();
    if (std::find(seen.begin(), seen.end(), bucket) != seen.end()) continue;
    seen.push_back(bucket);
    chosen.push_back(problem);
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](const ops::Problem& a, const ops::Problem& b) { return op.cost(a).flop < op.cost(b).flop; });
  return chosen;
}

Result<Stream> stream_of(const Job& job) {
  RIDGE_TRY(backend, parse_backend(job.request.backend));
  const Stream stream =
      backend == Backend::kCpu ? Stream::cpu(static_cast<int>(job.request.protocol.threads)) : Stream{backend};
  const std::string& missing = ops::device_info(stream).missing;
  if (!missing.empty()) return make_error(ErrorCode::kUnsupported, "nothing can be tuned: {}", missing);
  return stream;
}

}  // namespace

// Tunes one case, and says what others used meanwhile. A GPU's calls are not slowed down by other programs on the
// processors.
Result<record::TunedChoice> tune_watched(dispatch::Tuner& tuner, const ops::Problem& problem,
                                         const dispatch::TuneOptions& options, const Stream& stream,
                                         const record::Protocol& protocol) {
  const measure::CpuAccount before = measure::read_cpu_account();
  RIDGE_TRY(choice, tuner.tune(problem, options));
  if (stream.backend == Backend::kCpu) {
    choice.disturbed = measure::disturbance(measure::guards_between(before, measure::read_cpu_account(), 0),
                                            protocol.max_steal, protocol.max_foreign_load);
  }
  return choice;
}

// A case that cannot be tuned is reported and does not stop the others. What was measured while others used the
// processors is reported and not kept, unless the request says so; then it is measured again by the next call.
Status tune(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(bound, bind_cases(job, ops::CaseSet::kBench));
  const ops::Operator& op = *bound.op;
  const std::filesystem::path cache = job.request.cache_directory;
  if (cache.empty()) return invalid("the request names no cache_directory for the table");
  ops::set_kernel_cache(cache);
  RIDGE_TRY(stream, stream_of(job));
  const ops::DeviceInfo& device = ops::device_info(stream);
  response.environment = environment(job);
  if (stream.backend == Backend::kCuda) add_gpu_facts(*response.environment);
  const std::string limits = record::device_limits(*response.environment);
  dispatch::TunedTable table;
  RIDGE_CHECK_OK(table.add_folder(record::tuned_folder(cache)));
  const std::vector<ops::Problem> problems = one_of_each_bucket(op, bound.problems);
  dispatch::Tuner tuner(op, stream, cache);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const ops::Problem& problem = problems[i];
    const record::TunedChoice* known = job.request.again ? nullptr : table.find(op, problem, device);
    const bool good = known != nullptr && (known->disturbed.empty() || job.request.keep_disturbed);
    if (good && dispatch::is_fresh(*known, op, device, limits)) {
      response.tuned.push_back(*known);
      continue;
    }
    if (job.remaining() < kLeastSeconds) break;
    job.progress("tuning", fmt::format("{} ({} of {})", problem.problem_case.label(), i + 1, problems.size()),
                 static_cast<double>(i) / static_cast<double>(problems.size()));
    const double fair = job.remaining() / static_cast<double>(problems.size() - i);
    dispatch::TuneOptions options = dispatch::options_for(stream.backend);
    if (job.request.seed) options.seed = static_cast<std::uint64_t>(*job.request.seed);
    options.seconds = std::min({kSecondsPerCase, std::max(kShareOfFair * fair, kLeastSeconds), job.remaining()});
    const bool on_cpu = stream.backend == Backend::kCpu;
    const Status fits = on_cpu ? check_memory({problem}, kCopiesToCall) : ok_status();
    Result<record::TunedChoice> choice = fits ? tune_watched(tuner, problem, options, stream, job.request.protocol)
                                              : Result<record::TunedChoice>(fits.error());
    if (!choice) {
      record::TunedChoice failed;
      failed.bucket = dispatch::bucket_of(op, problem);
      failed.refused = {choice.error().text()};
      response.tuned.push_back(std::move(failed));
      continue;
    }
    choice->limits = limits;
    if (choice->disturbed.empty() || job.request.keep_disturbed) RIDGE_CHECK_OK(record::keep_tuned({*choice}, cache));
    response.tuned.push_back(std::move(*choice));
  }
  return ok_status();
}

}  // namespace ridge::evaluate
