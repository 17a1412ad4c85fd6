#include "toolchain/remembered_compiler.h"

#include <sys/stat.h>

#include <array>
#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "toolchain/device_build.h"

namespace ridge::toolchain {
namespace {

constexpr const char* kFileName = "device_compiler";

std::string stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return path + " absent";
  return fmt::format("{} {} {}.{:09}", path, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

// Everything a search for a compiler depends on and that can be had without opening it.
std::string surroundings(const std::string& compiler_file) {
  std::string text;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PATH"}) {
    const char* const value = std::getenv(variable);
    text += fmt::format("{}={}\n", variable, value == nullptr ? "" : value);
  }
  return sha256(text + stamp_of("/etc/ld.so.cache") + "\n" + stamp_of(compiler_file));
}

}  // namespace

CompilerName name_of(const DeviceCompiler& compiler) { return {compiler.version(), compiler.identity()}; }

std::optional<CompilerName> remembered_compiler(const std::filesystem::path& cache_directory) {
  const Result<std::string> text = read_file(cache_directory / kFileName);
  if (!text) return std::nullopt;
  std::array<std::string, 4> lines;  // surroundings, file, version, identity
  std::size_t at = 0;
  for (std::string& line : lines) {
    const std::size_t end = text->find('\n', at);
    if (end == std::string::npos) return std::nullopt;
    line = text->substr(at, end - at);
    at = end + 1;
  }
  if (lines[0] != surroundings(lines[1])) return std::nullopt;
  return CompilerName{lines[2], lines[3]};
}

void remember_compiler(const std::filesystem::path& cache_directory, const DeviceCompiler& compiler) {
  const std::string file = compiler.file();
  (void)write_file_durably(cache_directory / kFileName, fmt::format("{}\n{}\n{}\n{}\n", surroundings(file), file,
                                                                    compiler.version(), compiler.identity()));
}

}  // namespace ridge::toolchain
