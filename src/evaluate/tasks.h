// The tasks of a worker, one file each, and what they share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluate/run.h"
#include "evaluate/session.h"
#include "evaluate/subject.h"
#include "ops/op.h"
#include "record/worker.h"
#include "roofline/roofline.h"
#include "toolchain/build.h"

namespace ridge::evaluate {

// A request being worked on.
class Job {
 public:
  static Result<Job> create(const record::WorkerRequest& request, const RunContext& context);

  void progress(std::string stage, std::string detail, double fraction) const;
  // Seconds since the job started, and until it should end (infinite without a limit).
  [[nodiscard]] double elapsed() const;
  [[nodiscard]] double remaining() const;

  const record::WorkerRequest& request;
  Harness harness;
  std::int64_t seed = 0;  // of everything secret in a check; the request's, or from the operating system

 private:
  Job(const record::WorkerRequest& job_request, const RunContext& context);
  const RunContext& context_;
  std::uint64_t start_ns_;
};

// What the subjects of the request run on. An error when they run on different backends.
Result<Backend> backend_of(const Job& job, const ops::Operator& op);
// What the request is measured on.
Result<std::unique_ptr<MeasurementBackend>> make_measurement_backend(const Job& job, const ops::Operator& op);

// The machine and the software that a result depends on.
record::Environment environment(const Job& job);
// Facts "gpu.*" of the first GPU; none without a driver. Opens the driver: for `describe`, not before a measurement.
void add_gpu_facts(record::Environment& environment);

// The operator and the bound cases of a request. Cases of two operators in one request are an error. A case without
// any parameter stands for the operator's own list `set`.
struct BoundCases {
  const ops::Operator* op = nullptr;
  std::vector<ops::Problem> problems;
};
Result<BoundCases> bind_cases(const Job& job, ops::CaseSet set);

// A candidate or an implementation that can be measured, or why it cannot.
struct BuiltSubject {
  Subject subject;
  std::optional<Failure> failure;
  record::BuildEvidence evidence;
};
// Candidates and implementations of a request, in its order.
Result<std::vector<BuiltSubject>> subjects_of(const Job& job, const ops::Operator& op);
// An implementation by its own choice, "cuda_wgmma", or in a configuration, "cuda_wgmma/pp_128x192".
Result<Subject> library_subject(const ops::Operator& op, const std::string& name);
// Candidates of one backend. The subjects point at them.
Result<std::vector<BuiltSubject>> build_candidates(const Job& job, std::span<const record::Candidate> candidates);

// The same with AddressSanitizer and UBSan, and the run time to preload. An Error where that is not possible here.
struct SanitizedBuild {
  toolchain::Build build;
  std::filesystem::path runtime;
};
Result<SanitizedBuild> build_sanitized(const Job& job, const record::Candidate& candidate);

// Why an implementation cannot run a problem here, or why it is outside the scope that a candidate declares; or
// nothing.
std::optional<std::string> refusal(const Subject& subject, const ops::Problem& problem);

// The ceiling that bounds a problem; nothing when the request brought none.
std::optional<roofline::Limits> limits_of(const Job& job, const ops::Problem& problem);

// Full checks of a subject on every problem (evaluate/checker.h). One row per problem that an implementation supports;
// a candidate has a row for every problem, also for those that it does not claim.
std::vector<record::CheckRow> check_subject(const Job& job, const Subject& subject, const ops::Operator& op,
                                            const std::vector<ops::Problem>& problems,
                                            const std::function<void(std::size_t)>& progress);

Status describe(const Job& job, record::WorkerResponse& response);
Status ceilings(const Job& job, record::WorkerResponse& response);
Status operators(const Job& job, record::WorkerResponse& response);
Status explain(const Job& job, record::WorkerResponse& response);
Status check(const Job& job, record::WorkerResponse& response);
Status bench(const Job& job, record::WorkerResponse& response);
Status build(const Job& job, record::WorkerResponse& response);
Status screen(const Job& job, record::WorkerResponse& response);
Status calibrate(const Job& job, record::WorkerResponse& response);
Status evaluate(const Job& job, record::WorkerResponse& response);
Status plain_call(const Job& job, record::WorkerResponse& response);
Status tune(const Job& job, record::WorkerResponse& response);
Status kernels(const Job& job, record::WorkerResponse& response);

}  // namespace ridge::evaluate
