// ceilings, operators, explain, build: the tasks that only ask.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "dispatch/choose.h"
#include "evaluate/rig.h"
#include "evaluate/tasks.h"
#include "measure/ceilings.h"
#include "measure/machine.h"

namespace ridge::evaluate {

Status ceilings(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(backend, parse_backend(job.request.backend));
  RIDGE_TRY(rig, rig_of(backend));
  return rig->ceilings(job, response);
}

// One thread always, and the requested number: rooflines of both are wanted.
Status cpu_ceilings(const Job& job, record::WorkerResponse& response) {
  const std::set<std::int64_t> counts = {1, job.request.protocol.threads};
  std::size_t done = 0;
  for (const std::int64_t threads : counts) {
    const double base = static_cast<double>(done++);
    const auto note = [&](const std::string& name, double fraction) {
      job.progress("ceilings", fmt::format("{} on {} thread{}", name, threads, threads == 1 ? "" : "s"),
                   (base + fraction) / static_cast<double>(counts.size()));
    };
    measure::CeilingOptions options;
    options.threads = threads;
    const measure::CpuAccount before = measure::read_cpu_account();
    RIDGE_TRY(measured, measure::measure_ceilings(options, note));
    const std::string disturbed =
        measure::disturbance(measure::guards_between(before, measure::read_cpu_account(), 0),
                             job.request.protocol.max_steal, job.request.protocol.max_foreign_load);
    for (record::Ceiling& ceiling : measured) {
      ceiling.disturbed = disturbed;
      // Others only ever lower a rate: on a busy machine the fastest run is the nearest to the ceiling.
      if (!disturbed.empty() && !ceiling.samples.empty()) ceiling.value = std::ranges::max(ceiling.samples);
    }
    response.ceilings.insert(response.ceilings.end(), measured.begin(), measured.end());
  }
  return ok_status();
}

Status operators(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(backend, parse_backend(job.request.backend));
  for (const ops::Operator* op : ops::operators()) {
    record::OperatorInfo info;
    info.name = op->name;
    info.summary = op->summary;
    info.params = op->params;
    RIDGE_TRY(usual, op->bind({op->name, {}}));
    for (const record::ScalarInfo& one : usual.scalars) {
      info.scalars.push_back({one.name, one.help, one.usual.text(), one.usual.type});
    }
    for (const ops::Implementation& implementation : op->implementations)
      info.implementations.push_back(implementation.name);
    for (const record::Case& wanted : op->cases(ops::CaseSet::kTarget, backend)) {
      RIDGE_TRY(problem, op->bind(wanted));
      info.target_cases.push_back(problem.problem_case);
    }
    response.operators.push_back(std::move(info));
  }
  return ok_status();
}

Status explain(const Job& job, record::WorkerResponse& response) {
  if (job.request.cases.empty()) return invalid("the request names no case");
  RIDGE_TRY(backend, parse_backend(job.request.backend));
  const Stream stream = {backend, 0, static_cast<int>(job.request.protocol.threads), nullptr};
  for (const record::Case& wanted : job.request.cases) {
    RIDGE_TRY(explanation, dispatch::explain(wanted, stream));
    response.explanations.push_back(std::move(explanation));
  }
  return ok_status();
}

Status build(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(builds, build_candidates(job, job.request.candidates));
  for (BuiltSubject& one : builds) {
    if (one.failure) one.evidence.log = one.failure->detail + "\n" + one.evidence.log;
    response.builds.push_back(std::move(one.evidence));
  }
  return ok_status();
}

}  // namespace ridge::evaluate
