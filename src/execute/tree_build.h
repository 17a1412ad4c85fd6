// The library's own build in a source tree, as a promotion needs it: a folder that CMake configured for that tree,
// the programs in it, and the compile check of GPU kernels (tools/check_kernels.py).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ridge/result.h"

namespace ridge::execute {

struct TreeCommand {
  std::function<void(std::string_view)> on_line;  // of its output, as it comes
  std::function<bool()> should_stop;
};

// TREE/build where CMake configured that folder for this tree. kNotFound says what is missing.
Result<std::filesystem::path> configured_build(const std::filesystem::path& tree);

// cmake --build. The error ends in the last lines of its output.
Status build_targets(const std::filesystem::path& build, const std::vector<std::string>& targets,
                     const TreeCommand& command);

// Compiles the shipped builds whose names contain `names` ("matmul/cuda_wgmma:pp_128x128/") and refuses one that spills
// or takes more registers than its kernel allows. kUnsupported where there is no compiler for it.
Status check_kernel_builds(const std::filesystem::path& tree, const std::string& names, const TreeCommand& command);

}  // namespace ridge::execute
