// The device compiler that was found last time. Opening NVRTC, a library of 109 MB, takes 5 to 9 ms: more than all the
// rest of a start whose kernels are in the cache, and all that such a start wants of it is its name in the key.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "ridge/result.h"

namespace ridge::toolchain {

class DeviceCompiler;

// What a compiler adds to the key of an artefact.
struct CompilerName {
  std::string version, identity;
  bool operator==(const CompilerName&) const = default;
};
CompilerName name_of(const DeviceCompiler& compiler);

// Nothing when none was remembered in that cache, or when looking for one again could end elsewhere: its file has
// another size or time of change, or one of the places that decide which file is found (CUDA_HOME, CUDA_PATH,
// LD_LIBRARY_PATH, VIRTUAL_ENV, PATH, the loader's own cache) is not what it was.
std::optional<CompilerName> remembered_compiler(const std::filesystem::path& cache_directory);
// As well as it goes: what cannot be written is looked for again by the next process.
void remember_compiler(const std::filesystem::path& cache_directory, const DeviceCompiler& compiler);

}  // namespace ridge::toolchain
