// What the operators need of a GPU beside their kernels. In a build without the CUDA backend the answers say so.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "ops/op.h"

namespace ridge::device::cuda {
struct GpuInfo;
}

namespace ridge::ops {

// The same GPU as the operators see it; of the CUDA backend only.
DeviceInfo device_info_of(const device::cuda::GpuInfo& gpu);
// The GPU of that index; DeviceInfo::missing says why it cannot be used. Asked once per index; the answer stays.
const DeviceInfo& cuda_device_info(int index);

// The reference for operands in device memory: copies them to the host, computes there, copies the outputs back. Waits
// for the stream, so not while a graph is captured; only for small problems. Nothing without the CUDA backend.
std::optional<Implementation> cuda_reference(const Operator& op);

// Scratch memory in the order of a stream: of the stream's pool, or recorded into the graph that is being captured on
// it (ops/workspace.h).
struct DeviceWorkspace {
  void* data = nullptr;
  bool recorded = false;
};
Result<DeviceWorkspace> take_device_workspace(std::size_t bytes, const Stream& stream);
void give_back_device_workspace(const DeviceWorkspace& workspace, const Stream& stream);
std::size_t pooled_device_workspace_bytes();

// Where compiled kernels are kept on disk: set once by the code that reads the environment, before the first call.
// Packs that RIDGE_KERNEL_PACKS names, and then those in its folder `packs`, are taken before anything is compiled.
void set_kernel_cache(std::filesystem::path directory);
// Called with packs that cannot be read and are left out; not called unless set.
void on_kernel_warning(std::function<void(std::string)> receiver);

}  // namespace ridge::ops
