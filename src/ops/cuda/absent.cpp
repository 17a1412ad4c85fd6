#include "device/cuda/backend.h"
#include "ops/cuda/device.h"

namespace ridge::ops {

const DeviceInfo& cuda_device_info(int) {
  static const DeviceInfo none = [] {
    DeviceInfo info;
    info.backend = Backend::kCuda;
    info.missing = device::cuda::list_gpus().error().message;
    return info;
  }();
  return none;
}

std::optional<Implementation> cuda_reference(const Operator&) { return std::nullopt; }

Result<DeviceWorkspace> take_device_workspace(std::size_t, const Stream&) { return device::cuda::list_gpus().error(); }

void give_back_device_workspace(const DeviceWorkspace&, const Stream&) {}

std::size_t pooled_device_workspace_bytes() { return 0; }

void set_kernel_cache(std::filesystem::path) {}

void on_kernel_warning(std::function<void(std::string)>) {}

}  // namespace ridge::ops
