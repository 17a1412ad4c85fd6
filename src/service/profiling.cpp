#include "service/profiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/files.h"
#include "campaign/profile_hook.h"
#include "profile/profile.h"
#include "record/backend.h"
#include "record/json.h"
#include "roofline/roofline.h"

namespace ridge::service {
namespace {

using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;

constexpr double kWatchedSeconds = 1.0;  // of timed calls, under perf
constexpr double kWorkShare = 0.7;       // of the time allowed; the rest is for the tool's own work

std::string_view tool_of(const std::string& backend) {
  if (backend == record::info_of(Backend::kCpu).name) return "perf";
  return backend == record::info_of(Backend::kCuda).name ? "ncu" : "";
}

// What is known of a kernel beside what perf counted of the worker that called it: the memory's bandwidth and the time
// that the calls took.
Result<profile::Options> with_kernel(const record::ProfileReport& counted, const WorkerRequest& request,
                                     const std::filesystem::path& answered, profile::Options options) {
  RIDGE_TRY(text, read_file(answered));
  RIDGE_TRY(response, record::parse_record<WorkerResponse>(text, answered.string()));
  const Result<roofline::Limits> limits = roofline::limits(request.ceilings, request.protocol.threads);
  if (limits) options.bandwidth = limits->bandwidth;
  double called = 0;
  for (const record::BenchRow& row : response.bench)
    called = std::accumulate(row.samples.begin(), row.samples.end(), called);
  const std::optional<double> all = profile::metric(counted, "duration");
  options.vendor = profile::vendor_here();
  options.kernel_share = all && *all > 0 ? std::min(1.0, called / *all) : 0;
  return options;
}

class ProfilingExecutor final : public execute::Executor {
 public:
  ProfilingExecutor(std::filesystem::path worker, std::unique_ptr<execute::Executor> inner, ProfilingSubject subject)
      : worker_(std::move(worker)), inner_(std::move(inner)), subject_(std::move(subject)) {}

  Result<WorkerResponse> run(const WorkerRequest& request, const execute::OnProgress& on_progress,
                             const execute::ShouldStop& should_stop) override {
    if (request.task == WorkerTask::kProfile) {
      if (on_progress) on_progress({"profiling", profiler(), 0});
      return subject_.project ? of_project(request, on_progress, should_stop) : of_operator(request, should_stop);
    }
    Result<WorkerResponse> response = inner_->run(request, on_progress, should_stop);
    if (response && request.task == WorkerTask::kDescribe && response->environment)
      response->environment->facts[campaign::kProfilerFact] = profiler();
    return response;
  }
  [[nodiscard]] std::size_t width() const override { return inner_->width(); }
  std::vector<Result<WorkerResponse>> run_all(std::span<const WorkerRequest> requests,
                                              const execute::OnPartProgress& on_progress,
                                              const execute::ShouldStop& should_stop) override {
    const bool own = std::ranges::any_of(requests, [](const WorkerRequest& one) {
      return one.task == WorkerTask::kProfile || one.task == WorkerTask::kDescribe;
    });
    return own ? Executor::run_all(requests, on_progress, should_stop)
               : inner_->run_all(requests, on_progress, should_stop);
  }
  [[nodiscard]] double waited() const override { return inner_->waited(); }

 private:
  // The fact of the environment.
  [[nodiscard]] std::string profiler() const {
    const auto none = [](const std::string& why) { return fmt::format("{}: {}", campaign::kNoProfiler, why); };
    if (!subject_.elsewhere.empty()) return none("the campaign measures on " + subject_.elsewhere);
    if (subject_.project) return subject_.stated ? "commands.profile" : none("the project states no commands.profile");
    const std::string tool(tool_of(subject_.backend));
    if (tool.empty()) return none("none is known for " + subject_.backend);
    std::string missing = profile::why_not(tool);
    if (missing.empty()) missing = profile::why_no_counters(tool);
    return missing.empty() ? tool : none(missing);
  }

  Result<WorkerResponse> of_project(const WorkerRequest& request, const execute::OnProgress& on_progress,
                                    const execute::ShouldStop& should_stop) {
    RIDGE_TRY(response, inner_->run(request, on_progress, should_stop));
    RIDGE_TRY(capture, profile::parse_capture(response.profiler_report, {}));
    RIDGE_TRY(report, profile::analyse(capture, {}));
    report.from = "the project's commands.profile";
    response.profiler_report.clear();
    response.profile = std::move(report);
    return response;
  }

  // A worker that calls the kernel, and no reference, under the tool.
  Result<WorkerResponse> of_operator(const WorkerRequest& request, const execute::ShouldStop& should_stop) const {
    const std::string tool(tool_of(subject_.backend));
    RIDGE_TRY(folder, TempDir::create("ridge-profiled"));
    WorkerRequest watched = request;
    watched.task = tool == "ncu" ? WorkerTask::kPlainCall : WorkerTask::kBench;
    watched.min_time = kWatchedSeconds;
    watched.time_limit = kWorkShare * request.time_limit;
    const std::filesystem::path asked = folder.path() / "request.json";
    RIDGE_CHECK_OK(write_file_durably(asked, record::to_line(watched)));
    profile::Options options;
    options.timeout = request.time_limit;
    options.should_stop = should_stop;
    options.keep = folder.path() / "report";
    const std::filesystem::path answered = folder.path() / "response.json";
    RIDGE_TRY(report, profile::collect(tool, {worker_.string(), asked.string(), answered.string()}, options));
    if (tool == "perf") {
      RIDGE_TRY(described, with_kernel(report, request, answered, options));
      described.code = machine_code(request, should_stop);
      RIDGE_TRY(again, profile::read_report(options.keep, tool, described));
      report = std::move(again);
    }
    report.from = fmt::format("ridge-worker {} of {}", record::name_of(watched.task), request.cases.front().text());
    WorkerResponse response;
    response.profile = std::move(report);
    return response;
  }

  // Of a build that is in the cache by now; empty where it cannot be had.
  [[nodiscard]] std::map<std::string, double> machine_code(const WorkerRequest& request,
                                                           const execute::ShouldStop& should_stop) const {
    WorkerRequest build = request;
    build.task = WorkerTask::kBuild;
    const Result<WorkerResponse> built = inner_->run(build, {}, should_stop);
    return built && !built->builds.empty() ? built->builds.front().counts : std::map<std::string, double>();
  }

  std::filesystem::path worker_;
  std::unique_ptr<execute::Executor> inner_;
  ProfilingSubject subject_;
};

}  // namespace

std::unique_ptr<execute::Executor> make_profiling_executor(const Context& context,
                                                           std::unique_ptr<execute::Executor> inner,
                                                           ProfilingSubject subject) {
  return std::make_unique<ProfilingExecutor>(context.worker_program, std::move(inner), std::move(subject));
}

}  // namespace ridge::service
