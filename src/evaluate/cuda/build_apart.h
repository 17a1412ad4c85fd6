// Device code is compiled in a process of its own: NVRTC initialises the driver in the process that calls it, and a
// process with an initialised driver cannot fork one that measures.
#pragma once

#include <string>
#include <vector>

#include "toolchain/device_build.h"

namespace ridge::evaluate::cuda {

// A candidate with macros beside its own, or other code.
struct DeviceJob {
  const record::Candidate* candidate = nullptr;
  std::vector<std::string> macros;
  toolchain::DeviceCode code;
};

// In the order of the jobs, side by side. An Error is the machine's; code that does not compile is a build with an
// error.
Result<std::vector<toolchain::DeviceBuild>> build_apart(const std::vector<DeviceJob>& jobs, const std::string& arch,
                                                        const toolchain::BuildOptions& options);

}  // namespace ridge::evaluate::cuda
