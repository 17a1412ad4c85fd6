// NVRTC: CUDA's compiler as a library, some ten times faster than nvcc for one kernel. Loaded when first asked for.
#include <sys/stat.h>

#include <mutex>

#include "base/error.h"
#include "device/cpu/shared_library.h"
#include "device/cuda/library.h"
#include "toolchain/device_build.h"

namespace ridge::toolchain {
namespace {

using device::cpu::SharedLibrary;

// The interface of libnvrtc as far as it is used (https://docs.nvidia.com/cuda/nvrtc): every function returns 0 on
// success.
using Program = void*;
constexpr int kSuccess = 0;

struct Nvrtc {
  SharedLibrary library{device::cuda::toolkit_library("nvrtc", {"13", "12"})};
  SharedLibrary builtins;  // which libnvrtc looks up by its bare name, so it must be loaded from where libnvrtc is
  int (*version)(int*, int*) = library.function<int(int*, int*)>("nvrtcVersion");
  const char* (*error_string)(int) = library.function<const char*(int)>("nvrtcGetErrorString");
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) =
      library.function<int(Program*, const char*, const char*, int, const char* const*, const char* const*)>(
          "nvrtcCreateProgram");
  int (*destroy)(Program*) = library.function<int(Program*)>("nvrtcDestroyProgram");
  int (*compile)(Program, int,
                 const char* const*) = library.function<int(Program, int, const char* const*)>("nvrtcCompileProgram");
  int (*cubin_size)(Program, std::size_t*) = library.function<int(Program, std::size_t*)>("nvrtcGetCUBINSize");
  int (*cubin)(Program, char*) = library.function<int(Program, char*)>("nvrtcGetCUBIN");
  int (*log_size)(Program, std::size_t*) = library.function<int(Program, std::size_t*)>("nvrtcGetProgramLogSize");
  int (*log)(Program, char*) = library.function<int(Program, char*)>("nvrtcGetProgramLog");
  int major = 0, minor = 0;

  Nvrtc() : builtins(builtin_names()) {
    if (version != nullptr) version(&major, &minor);
  }
  [[nodiscard]] bool usable() const { return major >= 12 && cubin != nullptr && create != nullptr; }

 private:
  [[nodiscard]] std::vector<std::string> builtin_names() const {
    std::vector<std::string> names;
    int wanted_major = 0, wanted_minor = 0;
    auto* const ask = library.function<int(int*, int*)>("nvrtcVersion");
    if (ask == nullptr || ask(&wanted_major, &wanted_minor) != kSuccess) return names;
    const std::string folder = library.path().substr(0, library.path().rfind('/') + 1);
    names.push_back(fmt::format("{}libnvrtc-builtins.so.{}.{}", folder, wanted_major, wanted_minor));
    return names;
  }
};

const Nvrtc& nvrtc() {
  static const Nvrtc* const instance = new Nvrtc;
  return *instance;
}

// The file's size tells builds of one version apart, which the version does not.
std::string file_identity(const std::string& path) {
  struct stat status {};
  const long long size = ::stat(path.c_str(), &status) == 0 ? static_cast<long long>(status.st_size) : 0;
  return fmt::format("{} of {} bytes", path, size);
}

// Destroys the program on every way out.
class OpenProgram {
 public:
  OpenProgram() = default;
  OpenProgram(const OpenProgram&) = delete;
  OpenProgram& operator=(const OpenProgram&) = delete;
  ~OpenProgram() {
    if (handle != nullptr) nvrtc().destroy(&handle);
  }
  [[nodiscard]] std::string log() const {
    std::size_t size = 0;
    if (nvrtc().log_size(handle, &size) != kSuccess || size < 2) return {};
    std::string text(size, '\0');
    nvrtc().log(handle, text.data());
    text.resize(size - 1);
    return text;
  }
  Program handle = nullptr;
};

class NvrtcCompiler final : public DeviceCompiler {
 public:
  [[nodiscard]] std::string version() const override {
    return fmt::format("NVRTC {}.{}", nvrtc().major, nvrtc().minor);
  }
  [[nodiscard]] std::string identity() const override { return file_identity(nvrtc().library.path()); }
  [[nodiscard]] std::string file() const override { return nvrtc().library.path(); }

  Result<Output> compile(const DeviceCode& code, const std::filesystem::path& directory,
                         const BuildOptions&) const override {
    const std::vector<std::string> options = options_of(code, directory);
    std::vector<const char*> raw;
    for (const std::string& option : options) raw.push_back(option.c_str());
    Output output;
    output.command = "nvrtc " + code.files[0].path;
    for (const std::string& option : options) {
      if (!option.starts_with("-I")) output.command += " " + option;
    }
    OpenProgram program;
    const int made =
        nvrtc().create(&program.handle, code.files[0].text.c_str(), code.files[0].path.c_str(), 0, nullptr, nullptr);
    if (made != kSuccess) {
      return make_error(ErrorCode::kToolFailed, "nvrtcCreateProgram: {}", nvrtc().error_string(made));
    }
    const int compiled = nvrtc().compile(program.handle, static_cast<int>(raw.size()), raw.data());
    output.log = program.log();
    if (compiled != kSuccess) {
      if (output.log.empty()) output.log = fmt::format("error: {}", nvrtc().error_string(compiled));
      return output;
    }
    std::size_t size = 0;
    int fetched = nvrtc().cubin_size(program.handle, &size);
    output.cubin.resize(size);
    if (fetched == kSuccess) fetched = nvrtc().cubin(program.handle, output.cubin.data());
    if (fetched != kSuccess || size == 0) {
      return make_error(ErrorCode::kToolFailed, "nvrtcGetCUBIN: {} ({} bytes)", nvrtc().error_string(fetched), size);
    }
    output.ok = true;
    return output;
  }

 private:
  static std::vector<std::string> options_of(const DeviceCode& code, const std::filesystem::path& directory) {
    std::vector<std::string> options = {"--std=c++20", "--gpu-architecture=" + code.arch, "--generate-line-info",
                                        "--ptxas-options=-v"};
    // Since 12.9 it takes code from the driver's cache where there is a driver: a file of the user's that others may
    // write, and without ptxas's account of registers and spills.
    if (nvrtc().major > 12 || nvrtc().minor >= 9) options.push_back("--no-cache");
    options.insert(options.end(), code.flags.begin(), code.flags.end());
    for (const std::string& define : code.defines) options.push_back("-D" + define);
    options.push_back("-I" + (directory / code.files[0].path).parent_path().string());
    options.push_back("-I" + directory.string());
    for (const std::string& folder : device::cuda::toolkit_include_folders()) options.push_back("-I" + folder);
    return options;
  }
};

}  // namespace

Result<std::shared_ptr<const DeviceCompiler>> find_nvrtc() {
  if (nvrtc().usable()) return std::shared_ptr<const DeviceCompiler>(std::make_shared<NvrtcCompiler>());
  const std::string why = nvrtc().library.loaded()
                              ? fmt::format("{} is version {}.{}", nvrtc().library.path(), nvrtc().major, nvrtc().minor)
                              : nvrtc().library.error();
  return with_hint(make_error(ErrorCode::kNotFound, "no NVRTC of CUDA 12 or newer: {}", why),
                   "install the CUDA toolkit (or the wheel nvidia-cuda-nvrtc), or set CUDA_HOME");
}

}  // namespace ridge::toolchain
