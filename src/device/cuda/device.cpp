#include "device/cuda/device.h"

#include <array>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "device/cuda/driver.h"
#include "record/architecture.h"

namespace ridge::device::cuda {
namespace {

int attribute(const Driver& d, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  return d.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

Result<GpuInfo> describe(const Driver& d, int index) {
  CUdevice device{};
  RIDGE_CHECK_OK(check(d.cuDeviceGet(&device, index), "cuDeviceGet"));
  GpuInfo info;
  info.index = index;
  std::array<char, 256> text{};
  RIDGE_CHECK_OK(check(d.cuDeviceGetName(text.data(), static_cast<int>(text.size()), device), "cuDeviceGetName"));
  info.name = text.data();
  CUuuid uuid{};
  if (d.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS) info.uuid = uuid_text(uuid);
  if (d.cuDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device) == CUDA_SUCCESS) {
    info.pci_bus = text.data();
  }
  std::size_t bytes = 0;
  RIDGE_CHECK_OK(check(d.cuDeviceTotalMem(&bytes, device), "cuDeviceTotalMem"));
  info.memory_bytes = static_cast<std::int64_t>(bytes);
  RIDGE_CHECK_OK(check(d.cuDriverGetVersion(&info.driver_version), "cuDriverGetVersion"));
  const auto ask = [&](CUdevice_attribute which) { return attribute(d, device, which); };
  info.compute_major = ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  info.compute_minor = ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  info.arch = record::nvidia_target(info.compute_major, info.compute_minor);
  info.multiprocessors = ask(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  info.l2_bytes = ask(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  info.max_shared_bytes = ask(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  info.max_threads_per_block = ask(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  info.max_threads_per_multiprocessor = ask(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  info.core_clock_khz = ask(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  info.memory_clock_khz = ask(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  info.memory_bus_bits = ask(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  return info;
}

Result<std::vector<GpuInfo>> ask_driver() {
  RIDGE_TRY(d, load_driver());
  int count = 0;
  RIDGE_CHECK_OK(check(d->cuDeviceGetCount(&count), "cuDeviceGetCount"));
  if (count == 0) {
    return with_hint(make_error(ErrorCode::kUnsupported, "the CUDA driver is here but it shows no GPU"),
                     "check CUDA_VISIBLE_DEVICES and nvidia-smi");
  }
  std::vector<GpuInfo> gpus;
  for (int i = 0; i < count; ++i) {
    RIDGE_TRY(info, describe(*d, i));
    gpus.push_back(std::move(info));
  }
  return gpus;
}

}  // namespace

bool is_built_in() { return true; }

Result<std::vector<GpuInfo>> list_gpus() {
  static const Result<std::vector<GpuInfo>> found = ask_driver();
  return found;
}

Result<GpuInfo> gpu_info(int index) {
  RIDGE_TRY(gpus, list_gpus());
  if (index >= 0 && static_cast<std::size_t>(index) < gpus.size()) return gpus[static_cast<std::size_t>(index)];
  std::string names;
  for (const GpuInfo& gpu : gpus) names += fmt::format("{}{}: {}", names.empty() ? "" : ", ", gpu.index, gpu.name);
  return with_hint(make_error(ErrorCode::kNotFound, "there is no GPU {}", index), "the GPUs here: " + names);
}

Result<const Device*> Device::open(int index) {
  static std::mutex mutex;
  static auto* const opened = new std::vector<std::unique_ptr<Device>>;
  const std::scoped_lock lock(mutex);
  for (const auto& device : *opened) {
    if (device->info_.index == index) return device.get();
  }
  RIDGE_TRY(info, gpu_info(index));
  const Driver& d = driver();
  CUdevice handle{};
  RIDGE_CHECK_OK(check(d.cuDeviceGet(&handle, index), "cuDeviceGet"));
  CUcontext context{};
  RIDGE_CHECK_OK(check(d.cuDevicePrimaryCtxRetain(&context, handle), "cuDevicePrimaryCtxRetain"));
  auto device = std::make_unique<Device>();
  device->info_ = std::move(info);
  device->context_ = context;
  opened->push_back(std::move(device));
  return opened->back().get();
}

std::optional<void*> current_context() {
  const auto d = load_driver();
  CUcontext current{};
  if (!d || (*d)->cuCtxGetCurrent(&current) != CUDA_SUCCESS) return std::nullopt;
  return current;
}

void set_current_context(void* context) {
  const auto current = current_context();
  if (current && *current != context) driver().cuCtxSetCurrent(static_cast<CUcontext>(context));
}

Status Device::make_current() const {
  const Driver& d = driver();
  CUcontext current{};
  if (d.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context_) return ok_status();
  return check(d.cuCtxSetCurrent(static_cast<CUcontext>(context_)), "cuCtxSetCurrent");
}

Status Device::synchronize() const {
  RIDGE_CHECK_OK(make_current());
  return check(driver().cuCtxSynchronize(), "cuCtxSynchronize");
}

Result<Device::Memory> Device::memory() const {
  RIDGE_CHECK_OK(make_current());
  Memory memory;
  RIDGE_CHECK_OK(check(driver().cuMemGetInfo(&memory.free_bytes, &memory.total_bytes), "cuMemGetInfo"));
  return memory;
}

Status Device::reset_persisting_l2() const {
  RIDGE_CHECK_OK(make_current());
  return check(driver().cuCtxResetPersistingL2Cache(), "cuCtxResetPersistingL2Cache");
}

}  // namespace ridge::device::cuda
