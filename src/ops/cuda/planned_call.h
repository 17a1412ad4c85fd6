// A described kernel, ready to be launched on a device: its plan resolved for one case, its kernels loaded. A launch
// writes the addresses into prepared arguments, encodes the tensor maps and enqueues.
#pragma once

#include <span>

#include "device/cuda/device.h"
#include "device/cuda/plan.h"
#include "ops/described_kernel.h"

namespace ridge::ops {

// While one lives, calls of its thread are gathered where their kernels run lists (device/cuda/call_list.h); the others
// are launched as ever. The calls may come in any order, since nothing that one writes may be of another.
class GatheredCalls {
 public:
  explicit GatheredCalls(device::cuda::StreamHandle stream);
  GatheredCalls(const GatheredCalls&) = delete;
  GatheredCalls& operator=(const GatheredCalls&) = delete;
  ~GatheredCalls();
  // Enqueues what waits; without it that is lost.
  Status launch() { return list_.launch(); }

 private:
  device::cuda::CallList list_;
};

// How many multiprocessors of the device a call on the stream may count on; at least one.
int multiprocessors_of(const Stream& stream, const device::cuda::Device& device);

class PlannedCall {
 public:
  // `facts` with the operands and strides of the call; the numbers of the device are added, of its multiprocessors
  // those that are given. May compile and allocate.
  static Result<PlannedCall> prepare(const DescribedKernel& kernel, int configuration, record::PlanFacts facts,
                                     const device::cuda::Device& device, int multiprocessors);
  // Scratch memory that a launch needs, aligned to 256 bytes.
  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }
  // Where in that memory a workspace of the plan begins.
  [[nodiscard]] std::size_t workspace_offset(std::size_t workspace) const { return workspace_offsets_[workspace]; }
  // The operands and scalars in the order of the facts, and that memory. One thread at a time.
  Status launch(const Arguments& arguments, device::cuda::StreamHandle stream);

 private:
  const device::cuda::Device* device_ = nullptr;
  device::cuda::BoundPlan plan_;
  std::size_t workspace_bytes_ = 0;
  std::vector<std::size_t> workspace_offsets_;
  std::vector<void*> addresses_, workspaces_;
  std::vector<double> usual_, scalars_;
};

}  // namespace ridge::ops
