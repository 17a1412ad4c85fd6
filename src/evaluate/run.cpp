#include "evaluate/run.h"

#include <limits>

#include "base/error.h"
#include "evaluate/memory_need.h"
#include "evaluate/secrets.h"
#include "evaluate/tasks.h"

namespace ridge::evaluate {
namespace {

using record::WorkerTask;

struct TaskEntry {
  WorkerTask task;
  Status (*work)(const Job&, record::WorkerResponse&);
};
constexpr TaskEntry kTasks[] = {
    {WorkerTask::kDescribe, describe}, {WorkerTask::kCeilings, ceilings},    {WorkerTask::kOperators, operators},
    {WorkerTask::kExplain, explain},   {WorkerTask::kCheck, check},          {WorkerTask::kBench, bench},
    {WorkerTask::kBuild, build},       {WorkerTask::kScreen, screen},        {WorkerTask::kCalibrate, calibrate},
    {WorkerTask::kEvaluate, evaluate}, {WorkerTask::kPlainCall, plain_call}, {WorkerTask::kTune, tune},
    {WorkerTask::kKernels, kernels}};

Status work(const record::WorkerRequest& request, const RunContext& context, record::WorkerResponse& response) {
  if (request.version != record::WorkerRequest{}.version) {
    return invalid("the request has version {}, this worker speaks version {}", request.version,
                   record::WorkerRequest{}.version);
  }
  RIDGE_TRY(job, Job::create(request, context));
  for (const TaskEntry& entry : kTasks) {
    if (entry.task == request.task) return entry.work(job, response);
  }
  return make_error(ErrorCode::kInternal, "task {} has no code", record::name_of(request.task));
}

// What is too large is refused before (memory_need.h); this is for what others took meanwhile.
Status work_within_memory(const record::WorkerRequest& request, const RunContext& context,
                          record::WorkerResponse& response) {
  try {
    return work(request, context, response);
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return with_hint(make_error(ErrorCode::kIo, "the memory is used up: {:.0f} bytes are available", available_memory()),
                   "choose smaller sizes, or end other programs");
}

}  // namespace

Job::Job(const record::WorkerRequest& job_request, const RunContext& context)
    : request(job_request), context_(context), start_ns_(measure::now_ns()) {}

Result<Job> Job::create(const record::WorkerRequest& request, const RunContext& context) {
  Job job(request, context);
  const record::Protocol& protocol = request.protocol;
  if (protocol.mode != "cold" && protocol.mode != "warm") {
    return with_hint(invalid("mode \"{}\" is unknown", protocol.mode), "use cold or warm");
  }
  if (protocol.call_timeout <= 0 || protocol.build_timeout <= 0 || protocol.memory_limit_mib < 16) {
    return invalid(
        "call_timeout = {} s, build_timeout = {} s and memory_limit_mib = {} must be positive (memory at least 16)",
        protocol.call_timeout, protocol.build_timeout, protocol.memory_limit_mib);
  }
  RIDGE_TRY(placement, measure::place(protocol.threads, measure::usable_cpus()));
  job.harness = Harness{context.host_program, placement, protocol, context.defences};
  job.seed = request.seed.value_or(new_check_seed());
  return job;
}

void Job::progress(std::string stage, std::string detail, double fraction) const {
  if (context_.on_progress) context_.on_progress({std::move(stage), std::move(detail), fraction});
}

double Job::elapsed() const { return 1e-9 * static_cast<double>(measure::now_ns() - start_ns_); }

double Job::remaining() const {
  return request.time_limit > 0 ? request.time_limit - elapsed() : std::numeric_limits<double>::infinity();
}

record::WorkerResponse run(const record::WorkerRequest& request, const RunContext& context) {
  record::WorkerResponse response;
  if (const Status status = work_within_memory(request, context, response); !status) {
    response = {};
    response.error = status.error().message;
    response.error_hint = status.error().hint;
    response.unavailable = status.error().code == ErrorCode::kUnsupported;
  }
  return response;
}

}  // namespace ridge::evaluate
