// The GPUs that the library's kernels are compiled for ahead of time: what `ridge kernels build --arch` takes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::record {

struct KernelTarget {
  std::string_view arch;  // as a GPU of it asks for its kernels: nvidia_target()
  std::string_view gpus;  // for people: "Hopper (H100, H200)"
};

std::span<const KernelTarget> kernel_targets();
// An error says why not and lists those there are.
Result<KernelTarget> find_kernel_target(std::string_view arch);
// "sm_90a,sm_100a", each once.
Result<std::vector<std::string>> parse_kernel_targets(std::string_view list);

}  // namespace ridge::record
