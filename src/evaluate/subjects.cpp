// What the tasks share: cases, subjects, builds, rooflines.
#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"
#include "dispatch/choice.h"
#include "evaluate/cpu_measurement_backend.h"
#include "evaluate/rig.h"
#include "evaluate/tasks.h"
#include "record/backend.h"

namespace ridge::evaluate {

namespace {

Backend backend_of(const record::Candidate& candidate) { return record::backend_of_name(candidate.backend).backend; }

Result<toolchain::BuildOptions> build_options(const Job& job) {
  if (job.request.cache_directory.empty()) return invalid("the request names no cache_directory for built artefacts");
  toolchain::BuildOptions options;
  options.cache_directory = job.request.cache_directory;
  options.timeout = job.request.protocol.build_timeout;
  options.past_cache = job.request.fresh_build;
  return options;
}

// Refuses a request that names an implementation which can run none of its cases, most often because the library behind
// it is not installed or this build has no headers of it: an empty column would hide that.
Status require_named(const Job& job, const BoundCases& bound) {
  std::vector<std::string> names = job.request.implementations;
  if (job.request.versus) names.push_back(*job.request.versus);
  for (const std::string& name : names) {
    const auto subject = library_subject(*bound.op, name);
    if (!subject) continue;  // a candidate's name, or an error where subjects are looked up
    std::optional<std::string> first;
    const bool none = std::all_of(bound.problems.begin(), bound.problems.end(), [&](const ops::Problem& problem) {
      std::optional<std::string> why = refusal(*subject, problem);
      if (!first) first = why;
      return why.has_value();
    });
    if (none && first) return make_error(ErrorCode::kUnsupported, "{} can run none of these cases: {}", name, *first);
  }
  return ok_status();
}

// The scope that a candidate declares, in the names and values of its operator.
Status read_scope(Subject& subject) {
  RIDGE_TRY(scope, record::scope_of(*subject.candidate));
  if (!scope) return ok_status();
  RIDGE_TRY(op, ops::find_operator(subject.candidate->op));
  for (const auto& [name, claimed] : scope->values) {
    const auto param = std::ranges::find(op->params, name, &record::ParamInfo::name);
    if (param == op->params.end()) return invalid("ridge-scope: {} has no parameter \"{}\"", op->name, name);
    for (const std::string& value : claimed) {
      if (param->values.empty() || std::ranges::find(param->values, value) != param->values.end()) continue;
      return with_hint(invalid("ridge-scope: {} = \"{}\" does not exist", name, value),
                       fmt::format("known: {}", fmt::join(param->values, ", ")));
    }
  }
  subject.scope = std::make_shared<const record::Scope>(std::move(*scope));
  return ok_status();
}

// Why a case is outside the declared scope.
std::optional<std::string> outside_scope(const Subject& subject, const ops::Problem& problem) {
  if (subject.scope == nullptr) return std::nullopt;
  const auto excluded = subject.scope->excludes(problem.problem_case, problem.wholes(), problem.reals());
  return excluded ? *excluded : std::optional<std::string>(excluded.error().text());
}

}  // namespace

Result<ops::DeviceInfo> cpu_device_info() { return ops::device_info(Stream::cpu()); }

Result<std::vector<BuiltSubject>> build_for_cpu(const Job& job, std::span<const record::Candidate> candidates) {
  RIDGE_TRY(options, build_options(job));
  RIDGE_TRY(compiler, toolchain::find_host_compiler());
  const int jobs = static_cast<int>(measure::usable_cpus().size());
  const std::vector<record::Candidate> list(candidates.begin(), candidates.end());
  std::vector<BuiltSubject> built;
  for (Result<toolchain::Build>& result : toolchain::build_all(list, compiler, options, jobs)) {
    if (!result) return result.error();
    const record::Candidate& candidate = candidates[built.size()];
    BuiltSubject one;
    one.subject.name = candidate.name.empty() ? candidate.short_id() : candidate.name;
    if (result->object != nullptr) one.subject.artifact = result->object->path();
    one.subject.object = result->object;
    one.subject.candidate = &candidate;
    one.evidence = std::move(result->evidence);
    if (!result->ok()) one.failure = Failure{record::Outcome::kCompile, result->error, record::Defence::kBuild};
    built.push_back(std::move(one));
  }
  return built;
}

Result<Backend> backend_of(const Job& job, const ops::Operator& op) {
  std::optional<Backend> backend;
  std::string first;
  const auto see = [&](Backend one, const std::string& name) -> Status {
    if (backend && *backend != one) {
      return with_hint(invalid("{} runs on {}, {} on {}", first, to_string(*backend), name, to_string(one)),
                       "measure one backend at a time");
    }
    backend = one;
    first = name;
    return ok_status();
  };
  std::vector<std::string> names = job.request.implementations;
  if (job.request.versus) names.push_back(*job.request.versus);
  for (const std::string& name : names) {
    const auto subject = library_subject(op, name);
    if (subject) RIDGE_CHECK_OK(see(subject->backend(), name));
  }
  for (const record::Candidate& candidate : job.request.candidates) {
    RIDGE_CHECK_OK(see(backend_of(candidate), "candidate " + candidate.name));
  }
  if (job.request.incumbent) RIDGE_CHECK_OK(see(backend_of(*job.request.incumbent), "the incumbent"));
  return backend ? Result<Backend>(*backend) : parse_backend(job.request.backend);
}

Result<std::unique_ptr<MeasurementBackend>> make_measurement_backend(const Job& job, const ops::Operator& op) {
  RIDGE_TRY(backend, backend_of(job, op));
  RIDGE_TRY(rig, rig_of(backend));
  return rig->measurement(job, op);
}

Result<std::unique_ptr<MeasurementBackend>> make_cpu_measurement_backend(const Job& job, const ops::Operator&) {
  return std::unique_ptr<MeasurementBackend>(std::make_unique<CpuMeasurementBackend>(job.harness, job.request.seed));
}

Result<BoundCases> bind_cases(const Job& job, ops::CaseSet set) {
  BoundCases bound;
  const std::vector<record::Case>& cases = job.request.cases;
  if (cases.empty()) return invalid("the request names no case");
  RIDGE_TRY(op, ops::find_operator(cases[0].op));
  bound.op = op;
  RIDGE_TRY(backend, backend_of(job, *op));
  for (const record::Case& wanted : cases) {
    if (wanted.op != op->name) {
      return invalid("one request is about one operator; found {} and {}", op->name, wanted.op);
    }
    if (!wanted.params.empty()) {
      RIDGE_TRY(problem, op->bind(wanted));
      bound.problems.push_back(std::move(problem));
      continue;
    }
    for (const record::Case& own : op->cases(set, backend)) {
      RIDGE_TRY(problem, op->bind(own));
      bound.problems.push_back(std::move(problem));
    }
  }
  RIDGE_CHECK_OK(require_named(job, bound));
  return bound;
}

Result<std::vector<BuiltSubject>> build_candidates(const Job& job, std::span<const record::Candidate> candidates) {
  if (candidates.empty()) return std::vector<BuiltSubject>();
  RIDGE_TRY(rig, rig_of(backend_of(candidates[0])));
  RIDGE_TRY(built, rig->build(job, candidates));
  for (BuiltSubject& one : built) {
    if (const Status read = read_scope(one.subject); !read && !one.failure) {
      one.failure = Failure{record::Outcome::kCompile, read.error().text(), record::Defence::kBuild};
    }
  }
  return built;
}

Result<SanitizedBuild> build_sanitized(const Job& job, const record::Candidate& candidate) {
  RIDGE_TRY(options, build_options(job));
  options.sanitize = true;
  RIDGE_TRY(compiler, toolchain::find_host_compiler());
  RIDGE_TRY(runtime, toolchain::sanitizer_runtime(compiler));
  RIDGE_TRY(build, toolchain::build(candidate, compiler, options));
  return SanitizedBuild{std::move(build), std::move(runtime)};
}

Result<Subject> library_subject(const ops::Operator& op, const std::string& name) {
  RIDGE_TRY(choice, dispatch::parse_choice(op, name));
  Subject subject;
  subject.name = name;
  subject.implementation = choice.implementation;
  subject.configuration = choice.configuration;
  return subject;
}

Result<std::vector<BuiltSubject>> subjects_of(const Job& job, const ops::Operator& op) {
  std::vector<BuiltSubject> subjects;
  RIDGE_TRY(backend, backend_of(job, op));
  std::vector<std::string> names = job.request.implementations;
  const bool beside_candidates = job.request.all_implementations;
  if (names.empty() && (job.request.candidates.empty() || beside_candidates)) {
    for (const ops::Implementation& implementation : op.implementations) {
      // One call of what computes on the host beside a GPU can outlast any time limit, and it is no peer.
      const bool on_the_host = backend != Backend::kCpu && implementation.is_reference;
      if (on_the_host && job.request.task == record::WorkerTask::kBench) continue;
      if (beside_candidates && implementation.is_reference) continue;
      if (implementation.backend == backend) names.push_back(implementation.name);
    }
  }
  for (const std::string& name : names) {
    RIDGE_TRY(subject, library_subject(op, name));
    subjects.push_back({std::move(subject), {}, {}});
  }
  if (job.request.candidates.empty()) return subjects;
  job.progress("building", fmt::format("{} candidate(s)", job.request.candidates.size()), 0.0);
  RIDGE_TRY(built, build_candidates(job, job.request.candidates));
  for (BuiltSubject& one : built) subjects.push_back(std::move(one));
  return subjects;
}

std::optional<std::string> refusal(const Subject& subject, const ops::Problem& problem) {
  if (subject.backend() != Backend::kCpu) {
    const auto op = ops::find_operator(problem.problem_case.op);
    const bool asks = op && (*op)->device_check != nullptr && (*op)->device_check->refuses;
    if (asks) {
      if (auto why = (*op)->device_check->refuses(problem)) return why;
    }
  }
  if (subject.implementation == nullptr) return outside_scope(subject, problem);
  const Result<const Rig*> rig = rig_of(subject.implementation->backend);
  if (!rig) return rig.error().message;
  const Result<ops::DeviceInfo> device = (*rig)->device();
  if (!device) return device.error().message;
  return dispatch::why_not({subject.implementation, subject.configuration}, problem, *device);
}

std::optional<roofline::Limits> limits_of(const Job& job, const ops::Problem& problem) {
  const DType dtype = problem.operands.empty() ? DType::kF32 : problem.operands[0].dtype;
  const auto found = roofline::limits_of_type(job.request.ceilings, job.request.protocol.threads, to_string(dtype));
  if (found) return *found;
  const auto usual = roofline::limits(job.request.ceilings, job.request.protocol.threads);
  if (usual) return *usual;
  return std::nullopt;
}

}  // namespace ridge::evaluate
