#include "evaluate/cuda/device_subject.h"

#include "base/error.h"
#include "device/cuda/backend.h"
#include "dispatch/choice.h"
#include "ops/cuda/device.h"
#include "ops/described_kernel.h"
#include "ridge/stream.h"

namespace ridge::evaluate::cuda {
namespace {

using device::cuda::FaultKind;
using record::Defence;
using record::Outcome;

record::PlanFacts facts_of(const Program& program, const ops::Problem& problem, const std::vector<TensorView>& views,
                           const device::cuda::GpuInfo& gpu) {
  record::PlanFacts facts = ops::plan_facts(problem, views);
  facts.values.insert(program.defines.begin(), program.defines.end());
  facts.values["sm_count"] = gpu.multiprocessors;
  facts.values["max_shared"] = gpu.max_shared_bytes;
  facts.values["l2_bytes"] = gpu.l2_bytes;
  return facts;
}

}  // namespace

Failure failure_of_fault(const std::string& detail) {
  switch (device::cuda::sticky_fault().kind != FaultKind::kNone ? device::cuda::sticky_fault().kind
                                                                : device::cuda::last_fault().kind) {
    case FaultKind::kOutOfMemory: return {Outcome::kOom, detail, Defence::kMemory};
    case FaultKind::kLaunchTimeout: return {Outcome::kHang, detail, Defence::kHang};
    case FaultKind::kBadLaunch:
    case FaultKind::kIllegalAddress:
    case FaultKind::kKernelFailed: return {Outcome::kCrash, detail, Defence::kCrash};
    default: return {Outcome::kHarnessFault, detail, Defence::kNone};
  }
}

Attempt<std::unique_ptr<DeviceSubject>> DeviceSubject::load(const device::cuda::Device& device,
                                                            const Subject& subject) {
  std::unique_ptr<DeviceSubject> loaded(new DeviceSubject(device));
  loaded->implementation_ = subject.implementation;
  loaded->configuration_ = subject.configuration;
  loaded->program_ = subject.program;
  if (subject.implementation != nullptr) return loaded;
  if (subject.program == nullptr) {
    return Failure{Outcome::kHarnessFault, subject.name + " is no CUDA program", Defence::kNone};
  }
  Result<device::cuda::Module> module = device::cuda::Module::load(device, subject.program->cubin);
  if (!module) return failure_of_fault("loading the kernels: " + module.error().text());
  loaded->module_ = std::move(*module);
  return loaded;
}

Attempt<DeviceSubject::Prepared> DeviceSubject::prepare(const ops::Problem& problem,
                                                        const std::vector<TensorView>& views) const {
  if (is_library()) {
    ops::Problem placed = problem;
    placed.alignment = ops::alignments(views);
    const dispatch::Choice choice{implementation_, configuration_};
    if (auto why = dispatch::why_not(choice, placed, ops::cuda_device_info(device_.info().index))) {
      return Prepared{{}, {}, *why};
    }
    return Prepared{};
  }
  const record::PlanFacts facts = facts_of(*program_, problem, views, device_.info());
  if (program_->started != nullptr) {
    if (ops::Refusal why = needs_another_build(*program_->started, facts)) return Prepared{{}, {}, *why};
  }
  const Result<record::ResolvedPlan> resolved = record::resolve(program_->plan, facts);
  if (!resolved) {
    if (resolved.error().code == ErrorCode::kUnsupported) return Prepared{{}, {}, resolved.error().message};
    return Failure{Outcome::kCompile, "launch plan: " + resolved.error().text(), Defence::kBuild};
  }
  record::ResolvedPlan plan = *resolved;
  // What precedes the first kernel is the harness's own stamp: it must not start before that has ended.
  if (!plan.kernels.empty()) plan.kernels.front().overlap_previous = false;
  Result<device::cuda::PreparedPlan> prepared = device::cuda::PreparedPlan::prepare(*module_, plan, device_.info());
  if (!prepared) return Failure{Outcome::kCompile, "launch plan: " + prepared.error().text(), Defence::kBuild};
  Prepared result;
  result.workspace_bytes = prepared->workspace_bytes();
  result.plan = std::move(*prepared);
  return result;
}

Attempt<DeviceSubject::Launches> DeviceSubject::bind(const ops::Problem& problem, const Prepared& prepared,
                                                     const ops::Arguments& arguments,
                                                     const std::vector<void*>& workspaces) const {
  if (is_library()) {
    const auto placed = std::make_shared<ops::Problem>(problem);
    placed->configuration = configuration_;
    return Launches([this, placed, arguments](device::cuda::StreamHandle stream) {
      return implementation_->run(*placed, arguments, ridge::Stream{Backend::kCuda, device_.info().index, 1, stream});
    });
  }
  std::vector<void*> addresses;
  for (const TensorView& view : arguments.operands) addresses.push_back(view.data);
  Result<device::cuda::BoundPlan> bound = prepared.plan->bind(addresses, workspaces);
  if (!bound) return Failure{Outcome::kCompile, "launch plan: " + bound.error().text(), Defence::kBuild};
  std::vector<double> scalars;
  for (const record::Scalar& scalar : arguments.scalars) scalars.push_back(scalar.number());
  if (!scalars.empty()) bound->set_scalars(scalars);
  // Shared, because a std::function copies what it holds.
  const auto plan = std::make_shared<device::cuda::BoundPlan>(std::move(*bound));
  return Launches([plan](device::cuda::StreamHandle stream) { return plan->launch(stream); });
}

}  // namespace ridge::evaluate::cuda
