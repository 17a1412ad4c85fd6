#include "ops/cuda/planned_call.h"

#include <algorithm>

#include "base/error.h"
#include "ops/cuda/kernels.h"

namespace ridge::ops {

namespace gpu = device::cuda;

constexpr std::size_t kWorkspaceAlignment = 256;

// Of the thread's GatheredCalls.
static thread_local gpu::CallList* gathering = nullptr;

GatheredCalls::GatheredCalls(gpu::StreamHandle stream) : list_(stream) { gathering = &list_; }
GatheredCalls::~GatheredCalls() { gathering = nullptr; }

int multiprocessors_of(const Stream& stream, const gpu::Device& device) {
  const int all = device.info().multiprocessors, wanted = stream.multiprocessors;
  return wanted > 0 ? std::min(wanted, all) : std::max(all + wanted, 1);
}

Result<PlannedCall> PlannedCall::prepare(const DescribedKernel& kernel, int configuration, record::PlanFacts facts,
                                         const gpu::Device& device, int multiprocessors) {
  facts.values["sm_count"] = multiprocessors;
  facts.values["max_shared"] = device.info().max_shared_bytes;
  facts.values["l2_bytes"] = device.info().l2_bytes;
  RIDGE_TRY(build, kernel.build(configuration, facts));
  RIDGE_TRY(resolved, kernel.resolve(configuration, facts));
  const auto find = [&](const record::ResolvedKernel& planned) {
    const std::uint64_t cluster = std::uint64_t{planned.cluster[0]} * planned.cluster[1] * planned.cluster[2];
    return device_kernel(device, {build.source, build.defines, planned.symbol, planned.shared_bytes, cluster > 8});
  };
  RIDGE_TRY(prepared, gpu::PreparedPlan::prepare(find, resolved, device.info()));
  PlannedCall call;
  call.device_ = &device;
  call.plan_ = prepared.lay_out();
  for (const std::size_t bytes : prepared.workspace_bytes()) {
    call.workspace_offsets_.push_back(call.workspace_bytes_);
    call.workspace_bytes_ += (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  }
  for (const record::PlanScalar& scalar : facts.scalars) call.usual_.push_back(scalar.usual);
  call.scalars_ = call.usual_;
  return call;
}

Status PlannedCall::launch(const Arguments& arguments, gpu::StreamHandle stream) {
  RIDGE_CHECK_OK(device_->make_current());
  addresses_.resize(arguments.operands.size());  // allocates the first time
  for (std::size_t i = 0; i < addresses_.size(); ++i) addresses_[i] = arguments[i].data;
  for (std::size_t i = 0; i < scalars_.size(); ++i) {
    scalars_[i] = arguments.scalars.empty() ? usual_[i] : arguments.scalars[i].number();
  }
  plan_.set_scalars(scalars_);
  workspaces_.resize(workspace_offsets_.size());
  for (std::size_t i = 0; i < workspaces_.size(); ++i) {
    workspaces_[i] = workspace_bytes_ == 0 ? nullptr : arguments.workspace.data() + workspace_offsets_[i];
  }
  RIDGE_CHECK_OK(plan_.rebind(addresses_, workspaces_));
  if (gathering != nullptr && plan_.has_list()) return plan_.launch_in(*gathering);
  return plan_.launch(stream);
}

}  // namespace ridge::ops
