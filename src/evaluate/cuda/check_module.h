// The harness's own kernels on the device: the generic ones (harness.cu) and an operator's checks (ops/device_check.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "device/cuda/module.h"
#include "ops/device_check.h"

namespace ridge::evaluate::cuda {

// What runs on the GPU beside the subject. Compiled once per job, loaded into every process that measures.
struct CheckImages {
  std::string harness, checks;  // cubins
};

class CheckModule {
 public:
  static Result<std::unique_ptr<CheckModule>> load(const device::cuda::Device& device, const std::string& cubin);

  // Enqueues one launch. An error is a defect of the harness, never the candidate's.
  Status run(const ops::CheckLaunch& launch, device::cuda::StreamHandle stream);

 private:
  explicit CheckModule(device::cuda::Module module) : module_(std::move(module)) {}
  device::cuda::Module module_;
  std::map<std::string, device::cuda::Kernel> kernels_;
};

// Source of the generic kernels: harness.cu behind what it is built on.
std::string harness_source();

// Blocks of 256 threads for `count` items of a grid-stride loop: enough to fill any GPU, no more.
std::uint32_t blocks_for(std::int64_t count);

}  // namespace ridge::evaluate::cuda
