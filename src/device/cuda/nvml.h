// What the card is doing, from NVIDIA's management library (libnvidia-ml), loaded when first asked. Reads only: clocks,
// power limits and modes are never changed. Without the library, or where it refuses a reading, that reading is absent
// and `Telemetry::missing` says why; it is never an error and never a zero.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/result.h"

namespace ridge::device::cuda {

// A process that holds memory on the GPU.
struct GpuProcess {
  std::int64_t pid = 0;                     // in the management library's pid namespace
  std::optional<std::uint64_t> used_bytes;  // unknown inside most containers
};

struct Telemetry {
  std::optional<double> sm_clock_mhz, memory_clock_mhz, max_sm_clock_mhz, max_memory_clock_mhz;
  std::optional<double> power_watts, power_limit_watts, temperature_celsius;
  std::optional<double> busy_fraction;  // of the last sample period (up to a second), any kernel running
  // Named reasons for which clocks are lowered now; "idle" is one. Empty: none.
  std::optional<std::vector<std::string>> throttle_reasons;
  std::optional<std::uint64_t> ecc_uncorrected;  // since the driver was loaded
  std::optional<std::uint64_t> remapped_rows_failed;
  std::optional<std::vector<GpuProcess>> processes;  // all of them, ours included
  std::string missing;  // "libnvidia-ml.so.1: ...", or the refused readings; empty when everything was read

  // All processes but this one. A container sees pids of its own, so its own process may appear here under another one,
  // and processes of other containers may not appear at all: compare with the list of a quiet moment.
  [[nodiscard]] std::vector<GpuProcess> foreign_processes() const;
  // Whether a reason lowers clocks against a run at full load (not "idle", "application clocks", "sync boost").
  [[nodiscard]] bool throttled() const;
};

// Whether the library is there and answers; an error says why not.
Status nvml_status();
// The GPU with that UUID (GpuInfo::uuid), because the two libraries count differently. About 0.1 to 1 ms for all of it.
Telemetry read_telemetry(const std::string& uuid);
// Version of the driver package, "580.65.06"; empty when unknown.
std::string nvml_driver_version();

// Names of the bits in the library's reason mask, for Telemetry and its test.
std::vector<std::string> throttle_reason_names(std::uint64_t mask);

}  // namespace ridge::device::cuda
