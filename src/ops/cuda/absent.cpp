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

void set_kernel_cache(std::filesystem::path) {}

void add_kernel_packs(std::filesystem::path) {}

void on_kernel_warning(std::function<void(std::string)>) {}

}  // namespace ridge::ops
