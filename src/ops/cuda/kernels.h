// The operators' kernels: compiled when a case first needs one, cached on disk, loaded once per device.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/module.h"
#include "ops/described_kernel.h"
#include "ops/op.h"
#include "toolchain/device_build.h"

namespace ridge::ops {

// What is compiled for a build: its source, everything that it may include, and its defines.
toolchain::DeviceCode device_code(const KernelBuild& build, const std::string& arch);

struct KernelRequest {
  std::string source;                // of device_sources()
  std::vector<std::string> defines;  // "NAME=VALUE"
  std::string symbol;
  std::uint32_t shared_bytes = 0;  // dynamic, of a launch
  bool large_clusters = false;     // above 8 blocks
};

// The kernel on that device; a second caller of the same waits for the first. Seconds when it must be compiled,
// milliseconds from a pack (kernel_packs.h) or the cache, microseconds from this process. May allocate, so never while
// a graph is captured.
Result<device::cuda::Kernel> device_kernel(const device::cuda::Device& device, const KernelRequest& request);

// How long this process spent compiling and loading, and how often each happened; for reports and the tests.
struct KernelStatistics {
  std::int64_t compiled = 0, from_cache = 0, from_pack = 0, loaded = 0;
  double seconds = 0;
};
KernelStatistics kernel_statistics();

}  // namespace ridge::ops
