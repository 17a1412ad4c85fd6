// The GPU side of the tasks: one harness per job, candidates as programs, checks as rows.
#include <map>
#include <optional>

#include "base/error.h"
#include "base/hash.h"
#include "evaluate/cuda/build_apart.h"
#include "evaluate/cuda/ceilings.h"
#include "evaluate/cuda/check.h"
#include "evaluate/cuda/program.h"
#include "evaluate/gpu.h"
#include "evaluate/host_sanitize.h"
#include "ops/cuda/device.h"
#include "record/architecture.h"
#include "record/json.h"
#include "record/tunables.h"

namespace ridge::evaluate {
namespace {

using record::Outcome;

// Asked once: a GPU does not change while a process lives.
const Result<device::cuda::GpuInfo>& the_gpu() {
  static const Result<device::cuda::GpuInfo> info = cuda::ask_gpu(0);
  return info;
}

Result<toolchain::BuildOptions> build_options(const Job& job) {
  if (job.request.cache_directory.empty()) return invalid("the request names no cache_directory for built artefacts");
  toolchain::BuildOptions options;
  options.cache_directory = job.request.cache_directory;
  options.timeout = job.request.protocol.build_timeout;
  options.past_cache = job.request.fresh_build;
  return options;
}

Result<cuda::CudaHarness> harness_of(const Job& job, const ops::Operator& op) {
  if (!the_gpu()) return the_gpu().error();
  RIDGE_TRY(options, build_options(job));
  RIDGE_TRY(images, cuda::check_images(op, the_gpu()->arch, options));
  return cuda::CudaHarness{job.request.protocol, job.harness.defences, *the_gpu(), std::move(images)};
}

// What is launched: the machine code, the plan, and the values of the tunables that the plan reads, some of which the
// code does not.
std::string built_object(const std::string& cubin_digest, const record::LaunchPlan& plan,
                         const std::map<std::string, std::int64_t>& defines) {
  const std::string launch = record::to_line(plan);
  std::string text = cubin_digest + "\n" + launch + "\n";
  for (const auto& [name, value] : defines) {
    if (launch.find(name) != std::string::npos) text += fmt::format("{}={}\n", name, value);
  }
  return sha256(text);
}

Failure not_built(std::string why) { return {Outcome::kCompile, std::move(why), record::Defence::kBuild}; }

// A candidate as it is to be compiled.
struct Wanted {
  record::LaunchPlan plan;
  std::map<std::string, std::int64_t> defines;
  std::shared_ptr<const cuda::StartedKernel> started;
};
Result<Wanted> wanted_of(const record::Candidate& candidate) {
  RIDGE_TRY(plan, record::launch_plan(candidate));
  RIDGE_TRY(defines, record::define_values(candidate));
  RIDGE_TRY(started, cuda::started_kernel(candidate, defines));
  return Wanted{std::move(plan), std::move(defines), std::move(started)};
}

BuiltSubject subject_of(const record::Candidate& candidate, const Result<Wanted>& wanted, toolchain::DeviceBuild build,
                        bool look_for_calls) {
  BuiltSubject built;
  built.subject.name = candidate.name.empty() ? candidate.short_id() : candidate.name;
  built.subject.candidate = &candidate;
  built.evidence = std::move(build.evidence);
  built.evidence.candidate = candidate.id();
  if (!wanted) {
    built.failure = not_built(wanted.error().text());
  } else if (!build.ok()) {
    built.failure = not_built(build.error);
  } else if (const auto call = look_for_calls ? cuda::device_call(build.cubin) : std::nullopt) {
    built.failure = Failure{Outcome::kCheat,
                            fmt::format("calls {} on the device; a kernel may not print, allocate or launch", *call),
                            record::Defence::kDeviceCalls};
  } else {
    built.evidence.artifact = built_object(built.evidence.artifact, wanted->plan, wanted->defines);
    built.subject.program = std::make_shared<cuda::Program>(
        cuda::Program{std::move(build.cubin), wanted->plan, wanted->defines, wanted->started});
  }
  return built;
}

}  // namespace

Result<ops::DeviceInfo> gpu_device_info() {
  if (!the_gpu()) return the_gpu().error();
  return ops::device_info_of(*the_gpu());
}

Result<std::unique_ptr<MeasurementBackend>> make_gpu_measurement_backend(const Job& job, const ops::Operator& op) {
  RIDGE_TRY(harness, harness_of(job, op));
  return std::unique_ptr<MeasurementBackend>(std::make_unique<cuda::CudaMeasurementBackend>(std::move(harness)));
}

Result<std::vector<BuiltSubject>> build_for_gpu(const Job& job, std::span<const record::Candidate> candidates) {
  RIDGE_TRY(options, build_options(job));
  const std::string arch = the_gpu() ? the_gpu()->arch : record::kUsualTarget;
  const bool look_for_calls = job.harness.defences.on(record::Defence::kDeviceCalls);
  std::vector<Result<Wanted>> wanted;
  std::vector<cuda::DeviceJob> jobs;
  for (const record::Candidate& candidate : candidates) {
    wanted.push_back(wanted_of(candidate));
    const bool started = wanted.back() && wanted.back()->started != nullptr;
    jobs.push_back({&candidate, started ? wanted.back()->started->macros : std::vector<std::string>(), {}});
  }
  RIDGE_TRY(builds, cuda::build_apart(jobs, arch, options));
  std::vector<BuiltSubject> built;
  for (std::size_t i = 0; i < builds.size(); ++i) {
    built.push_back(subject_of(candidates[i], wanted[i], std::move(builds[i]), look_for_calls));
  }
  return built;
}

std::vector<record::CheckRow> check_gpu_subject(const Job& job, const Subject& subject, const ops::Operator& op,
                                                const std::vector<ops::Problem>& problems,
                                                const std::function<void(std::size_t)>& progress) {
  Result<cuda::CudaHarness> harness = harness_of(job, op);
  if (!harness) {
    std::vector<record::CheckRow> rows;
    for (const ops::Problem& problem : problems) {
      record::CheckRow row;
      row.label = problem.problem_case.label();
      row.outcome = Outcome::kHarnessFault;
      row.detail = harness.error().text();
      rows.push_back(std::move(row));
    }
    return rows;
  }
  cuda::CudaMeasurementBackend measurement(std::move(*harness));
  std::vector<record::CheckRow> rows =
      cuda::check_on_gpu({measurement, subject, op, problems, static_cast<std::uint64_t>(job.seed),
                          subject.deterministic(), [&job] { return job.remaining(); }, progress});
  const bool right = !rows.empty() && rows[0].outcome == Outcome::kPass && subject.candidate != nullptr;
  if (right && job.harness.defences.on(record::Defence::kSanitizer))
    sanitizer_lane(job, subject, op, problems[0], rows[0]);
  return rows;
}

Status gpu_ceilings(const Job& job, record::WorkerResponse& response) {
  if (!the_gpu()) return the_gpu().error();
  RIDGE_TRY(options, build_options(job));
  ops::set_kernel_cache(options.cache_directory);
  job.progress("ceilings", "compiling the kernels", 0);
  RIDGE_TRY(bench, cuda::CeilingBench::create(*the_gpu(), options));
  const auto note = [&](const std::string& name, double fraction) {
    job.progress("ceilings", fmt::format("{} on {}", name, the_gpu()->name), fraction);
  };
  RIDGE_TRY(measured, cuda::measure_ceilings(*bench, note));
  response.ceilings = std::move(measured);
  return ok_status();
}

Status plain_call(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(bound, bind_cases(job, ops::CaseSet::kCheck));
  RIDGE_TRY(subjects, subjects_of(job, *bound.op));
  RIDGE_TRY(harness, harness_of(job, *bound.op));
  const cuda::CudaMeasurementBackend measurement(std::move(harness));
  for (BuiltSubject& one : subjects) {
    record::CheckReport report;
    report.subject = one.subject.name;
    cuda::SubjectRunnerSpec spec = measurement.spec_of(one.subject, *bound.op, bound.problems);
    spec.timed = false;
    std::optional<Failure> failure = one.failure;
    std::unique_ptr<cuda::DeviceSubjectRunner> runner;
    if (!failure) {
      auto opened = cuda::DeviceSubjectRunner::open(std::move(spec));
      if (opened) {
        runner = std::move(*opened);
      } else {
        failure = std::move(opened.error());
      }
    }
    for (std::size_t i = 0; i < bound.problems.size(); ++i) {
      record::CheckRow row;
      row.label = bound.problems[i].problem_case.label();
      if (runner != nullptr) {
        const Verdict verdict = runner->plain_call(i);
        failure = verdict.ok() ? std::nullopt : std::optional(verdict.error());
      }
      if (failure) {
        row.outcome = failure->outcome;
        row.gate = failure->gate;
        row.detail = failure->detail;
      }
      report.rows.push_back(std::move(row));
    }
    response.checks.push_back(std::move(report));
  }
  return ok_status();
}

}  // namespace ridge::evaluate
