// Where NVIDIA's libraries are looked for, since few systems have the toolkit on the loader's path.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/embedded.h"

namespace ridge::device::cuda {

// Names to try for "nvrtc", "cublasLt", ... in order: the loader's own path with each of the versions (newest first),
// then $CUDA_HOME/lib64, /usr/local/cuda/lib64, and the folders that Python wheels of CUDA use under the site-packages
// that this code is installed in, and those of $VIRTUAL_ENV and the system.
std::vector<std::string> toolkit_library(const std::string& stem, const std::vector<std::string>& versions);

// Folders with the toolkit's headers (cuda_bf16.h), where they exist.
std::vector<std::string> toolkit_include_folders();

// The headers of src/device/cuda/kernel, by file name: what every kernel of ours is built from.
std::span<const EmbeddedFile> kernel_layer();

}  // namespace ridge::device::cuda
