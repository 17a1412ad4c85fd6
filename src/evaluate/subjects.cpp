// What the tasks share: cases, subjects, builds, rooflines.
#include <algorithm>

#include "base/error.h"
#include "evaluate/cpu_rig.h"
#include "evaluate/tasks.h"

namespace ridge::evaluate {

std::unique_ptr<Rig> make_rig(const Job& job) { return std::make_unique<CpuRig>(job.harness); }

Result<BoundCases> bind_cases(const std::vector<record::Case>& cases, ops::CaseSet set) {
  BoundCases bound;
  if (cases.empty()) return invalid("the request names no case");
  RIDGE_TRY(op, ops::find_operator(cases[0].op));
  bound.op = op;
  for (const record::Case& wanted : cases) {
    if (wanted.op != op->name) {
      return invalid("one request is about one operator; found {} and {}", op->name, wanted.op);
    }
    if (!wanted.params.empty()) {
      RIDGE_TRY(problem, op->bind(wanted));
      bound.problems.push_back(std::move(problem));
      continue;
    }
    for (const record::Case& own : op->cases(set, Backend::kCpu)) {
      RIDGE_TRY(problem, op->bind(own));
      bound.problems.push_back(std::move(problem));
    }
  }
  return bound;
}

Result<toolchain::Build> build_candidate(const Job& job, const record::Candidate& candidate) {
  RIDGE_TRY(builds, build_candidates(job, {candidate}));
  return std::move(builds[0]);
}

namespace {

Result<toolchain::BuildOptions> build_options(const Job& job) {
  if (job.request.cache_directory.empty()) return invalid("the request names no cache_directory for built artefacts");
  toolchain::BuildOptions options;
  options.cache_directory = job.request.cache_directory;
  options.timeout = job.request.protocol.build_timeout;
  return options;
}

}  // namespace

Result<std::vector<toolchain::Build>> build_candidates(const Job& job,
                                                       const std::vector<record::Candidate>& candidates) {
  RIDGE_TRY(options, build_options(job));
  RIDGE_TRY(compiler, toolchain::find_host_compiler());
  std::vector<toolchain::Build> builds;
  const int jobs = static_cast<int>(measure::usable_cpus().size());
  for (Result<toolchain::Build>& result : toolchain::build_all(candidates, compiler, options, jobs)) {
    if (!result) return result.error();
    builds.push_back(std::move(*result));
  }
  return builds;
}

Result<SanitizedBuild> build_sanitized(const Job& job, const record::Candidate& candidate) {
  RIDGE_TRY(options, build_options(job));
  options.sanitize = true;
  RIDGE_TRY(compiler, toolchain::find_host_compiler());
  RIDGE_TRY(runtime, toolchain::sanitizer_runtime(compiler));
  RIDGE_TRY(build, toolchain::build(candidate, compiler, options));
  return SanitizedBuild{std::move(build), std::move(runtime)};
}

Result<std::vector<NamedSubject>> subjects_of(const Job& job, const ops::Operator& op) {
  std::vector<NamedSubject> subjects;
  std::vector<std::string> names = job.request.implementations;
  if (names.empty() && job.request.candidates.empty()) {
    for (const ops::Implementation& implementation : op.implementations) {
      if (implementation.backend == Backend::kCpu) names.push_back(implementation.name);
    }
  }
  for (const std::string& name : names) {
    RIDGE_TRY(implementation, ops::find_implementation(op, name));
    subjects.push_back({Subject{name, {}, implementation}, {}});
  }
  if (job.request.candidates.empty()) return subjects;
  job.progress("building", fmt::format("{} candidate(s)", job.request.candidates.size()), 0.0);
  RIDGE_TRY(builds, build_candidates(job, job.request.candidates));
  for (std::size_t i = 0; i < builds.size(); ++i) {
    const record::Candidate& candidate = job.request.candidates[i];
    const std::string name = candidate.name.empty() ? candidate.short_id() : candidate.name;
    subjects.push_back({Subject{name, builds[i].artifact, nullptr, &candidate}, builds[i].error});
  }
  return subjects;
}

std::optional<std::string> refusal(const Subject& subject, const ops::Problem& problem) {
  if (subject.implementation == nullptr) return std::nullopt;
  return ops::why_not(*subject.implementation, problem, ops::device_info(Stream::cpu()));
}

std::optional<roofline::Limits> limits_of(const Job& job, const ops::Problem& problem) {
  const DType dtype = problem.operands.empty() ? DType::kF32 : problem.operands[0].dtype;
  const auto found =
      roofline::limits(job.request.ceilings, job.request.protocol.threads, "fma_" + std::string(to_string(dtype)));
  if (found) return *found;
  const auto usual = roofline::limits(job.request.ceilings, job.request.protocol.threads);
  if (usual) return *usual;
  return std::nullopt;
}

}  // namespace ridge::evaluate
