// nvcc: the compiler of the toolkit as a process, with a time limit and, where the machine has name spaces, without its
// files. Needs a host compiler beside it.
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/process.h"
#include "toolchain/cache.h"
#include "toolchain/confined.h"
#include "toolchain/device_build.h"

namespace ridge::toolchain {
namespace {

class NvccCompiler final : public DeviceCompiler {
 public:
  NvccCompiler(std::string program, std::string version) : program_(std::move(program)), version_(std::move(version)) {}
  [[nodiscard]] std::string version() const override { return version_; }
  [[nodiscard]] std::string identity() const override { return program_; }
  [[nodiscard]] std::string file() const override { return program_; }

  Result<Output> compile(const DeviceCode& code, const std::filesystem::path& directory,
                         const BuildOptions& options) const override {
    const ConfinedFolder folder(program_, directory, options.confined);
    ProcessSpec spec = folder.process();
    spec.argv = {program_, "-cubin",   "-arch=" + code.arch, "-std=c++20", "-lineinfo", "--ptxas-options=-v",
                 "-o",     kCubinName, code.files[0].path,   "-I."};
    spec.argv.insert(spec.argv.end(), code.flags.begin(), code.flags.end());
    for (const std::string& define : code.defines) spec.argv.push_back("-D" + define);
    spec.timeout = options.timeout;
    spec.environment["SOURCE_DATE_EPOCH"] = "0";
    RIDGE_TRY(ended, run_process(spec));
    Output output;
    output.command = quote_command(spec.argv);
    output.log = ended.output + ended.error_output;
    if (!ended.succeeded()) {
      if (output.log.find("error") == std::string::npos)
        output.log += fmt::format("error: nvcc {}\n", ended.describe());
      return output;
    }
    RIDGE_CHECK_OK(folder.take_back({kCubinName}));
    RIDGE_TRY(cubin, read_file(directory / kCubinName));
    output.cubin = std::move(cubin);
    output.ok = true;
    return output;
  }

 private:
  std::string program_, version_;
};

std::string nvcc_program() {
  if (std::string found = find_program("nvcc"); !found.empty()) return found;
  const char* home = std::getenv("CUDA_HOME");
  for (const std::string& root : {std::string(home == nullptr ? "" : home), std::string("/usr/local/cuda")}) {
    std::error_code failure;
    if (!root.empty() && std::filesystem::exists(root + "/bin/nvcc", failure)) return root + "/bin/nvcc";
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const DeviceCompiler>> find_nvcc() {
  const std::string program = nvcc_program();
  if (program.empty()) {
    return with_hint(make_error(ErrorCode::kNotFound, "no nvcc in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin"),
                     "install the CUDA toolkit");
  }
  ProcessSpec spec;
  spec.argv = {program, "--version"};
  spec.timeout = 20.0;
  RIDGE_TRY(ended, run_process(spec));
  const std::size_t at = ended.output.rfind("release ");
  if (!ended.succeeded() || at == std::string::npos) {
    return make_error(ErrorCode::kToolFailed, "{} --version {}: {}", program, ended.describe(),
                      ended.output + ended.error_output);
  }
  const std::string version = "nvcc " + ended.output.substr(at, ended.output.find('\n', at) - at);
  return std::shared_ptr<const DeviceCompiler>(std::make_shared<NvccCompiler>(program, version));
}

Result<std::shared_ptr<const DeviceCompiler>> find_device_compiler() {
  auto first = find_nvrtc();
  if (first) return first;
  auto second = find_nvcc();
  if (second) return second;
  Error error = first.error();
  error.message += "; " + second.error().message;
  return error;
}

}  // namespace ridge::toolchain
