// What the driver says about the first GPU, for people and for `ridge spec probe`.
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "device/cuda/backend.h"
#include "device/cuda/nvml.h"
#include "evaluate/tasks.h"

namespace ridge::evaluate {

void add_gpu_facts(record::Environment& environment) {
  const Result<device::cuda::GpuInfo> gpu = device::cuda::gpu_info(0);
  if (!gpu) return;
  auto& facts = environment.facts;
  facts["gpu.name"] = gpu->name;
  facts["gpu.uuid"] = gpu->uuid;
  facts["gpu.arch"] = gpu->arch;
  facts["gpu.driver_version"] = std::to_string(gpu->driver_version);
  facts["gpu.multiprocessors"] = std::to_string(gpu->multiprocessors);
  facts["gpu.memory_bytes"] = std::to_string(gpu->memory_bytes);
  facts["gpu.l2_bytes"] = std::to_string(gpu->l2_bytes);
  facts["gpu.shared_bytes_per_block"] = std::to_string(gpu->max_shared_bytes);
  facts["gpu.threads_per_block"] = std::to_string(gpu->max_threads_per_block);
  facts["gpu.threads_per_multiprocessor"] = std::to_string(gpu->max_threads_per_multiprocessor);
  // 0 where the driver does not say.
  if (gpu->core_clock_khz > 0) facts["gpu.core_clock_khz"] = std::to_string(gpu->core_clock_khz);
  if (gpu->memory_clock_khz > 0) facts["gpu.memory_clock_khz"] = std::to_string(gpu->memory_clock_khz);
  if (gpu->memory_bus_bits > 0) facts["gpu.memory_bus_bits"] = std::to_string(gpu->memory_bus_bits);
  // What an administrator may have changed.
  const device::cuda::Telemetry limits = device::cuda::read_telemetry(gpu->uuid);
  const std::pair<const char*, std::optional<double>> readings[] = {
      {"gpu.power_limit_watts", limits.power_limit_watts},
      {"gpu.max_sm_clock_mhz", limits.max_sm_clock_mhz},
      {"gpu.max_memory_clock_mhz", limits.max_memory_clock_mhz}};
  for (const auto& [name, value] : readings) {
    if (value) facts[name] = fmt::format("{:.0f}", *value);
  }
}

}  // namespace ridge::evaluate
