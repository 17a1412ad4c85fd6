// Shipped GPU kernels by name: "matmul/cuda_wgmma" is the first of its builds in the list that the build of the library
// writes (record/shipped_build.h), "matmul/cuda_wgmma:pp_128x192/nt_bf16" that one. Compiled with NVRTC or nvcc through
// the cache; no GPU is needed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ridge/result.h"

namespace ridge::inspect {

struct ShippedBuild {
  std::string name;                  // "matmul/cuda_wgmma:pp_128x128/nt_bf16"
  std::string cubin, compiler, log;  // log: with ptxas's own account of registers and spills
};

// Whether a word looks like such a name; a file of that name goes first.
bool names_shipped_kernel(const std::string& word);

// `sources` is the folder src/ of the source tree, `list` the file of the builds. kNotFound lists what there is.
Result<ShippedBuild> build_shipped(const std::filesystem::path& sources, const std::filesystem::path& list,
                                   const std::string& name, const std::filesystem::path& cache_directory);
// Every build that an operator's kernel ships as, "pp_128x128/nt_bf16" first.
Result<std::vector<std::string>> shipped_builds(const std::filesystem::path& list, const std::string& kernel);

}  // namespace ridge::inspect
