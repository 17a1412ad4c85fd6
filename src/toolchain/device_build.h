// Device source -> cubin, by NVRTC in this process or by nvcc, through the content-addressed cache. No GPU is needed.
//
// The key of an artefact is the SHA-256 of everything that can change it: the source, every header it can reach (its
// own, and those of the CUDA toolkit it includes), defines, flags, architecture, compiler and version.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "record/architecture.h"
#include "record/candidate.h"
#include "record/measurement.h"
#include "ridge/result.h"
#include "toolchain/build.h"

namespace ridge::toolchain {

// What is compiled: files[0]; the others are what it includes, by the path it includes them with or relative to the
// including file, as on disk.
struct DeviceCode {
  std::vector<record::SourceFile> files;
  std::vector<std::string> defines;  // "NAME=VALUE" or "NAME"
  std::vector<std::string> flags;    // of device_flag_allowed
  std::string arch = record::kUsualTarget;
};

// The two compilers behind one interface. `directory` holds the files of the code at their paths.
class DeviceCompiler {
 public:
  virtual ~DeviceCompiler() = default;
  [[nodiscard]] virtual std::string version() const = 0;  // for people: "NVRTC 13.0"
  // Part of the cache's key: tells builds of one version apart.
  [[nodiscard]] virtual std::string identity() const = 0;
  // The library or program itself.
  [[nodiscard]] virtual std::string file() const = 0;
  struct Output {
    bool ok = false;
    std::string cubin;
    std::string log;      // warnings, errors, and ptxas's account of registers and spills
    std::string command;  // what was run, or the options given
  };
  // An Error is the machine's (no compiler, no space); source that does not compile is an Output that is not ok.
  virtual Result<Output> compile(const DeviceCode& code, const std::filesystem::path& directory,
                                 const BuildOptions& options) const = 0;
};

// NVRTC, loaded at run time. The error lists where it was looked for.
Result<std::shared_ptr<const DeviceCompiler>> find_nvrtc();
// nvcc from PATH, $CUDA_HOME/bin or /usr/local/cuda/bin.
Result<std::shared_ptr<const DeviceCompiler>> find_nvcc();
// NVRTC, else nvcc. RIDGE_DEVICE_COMPILER=nvrtc|nvcc is read by the caller, not here.
Result<std::shared_ptr<const DeviceCompiler>> find_device_compiler();

// Digest of everything that the code is made from but the compiler and the toolkit's own headers: by which packs of
// compiled kernels are searched.
std::string source_key(const DeviceCode& code);

struct DeviceBuild {
  record::BuildEvidence evidence;  // counts: registers, spill_bytes, stack_bytes, shared_bytes (of the largest kernel)
  std::filesystem::path artifact;  // the cubin's file
  std::string cubin;               // its content
  std::string error;  // empty exactly when the cubin is there; else the first error with its line of source
  [[nodiscard]] bool ok() const { return error.empty(); }
};

// An Error is the harness's; code that does not compile is a DeviceBuild with `error`.
Result<DeviceBuild> build_device(const DeviceCode& code, const DeviceCompiler& compiler, const BuildOptions& options);
// The same with the compiler that `find` finds (find_device_compiler, but for tests). It is not looked for when the
// cache has what the one of last time made of this code (remembered_compiler.h).
using FindCompiler = std::function<Result<std::shared_ptr<const DeviceCompiler>>()>;
Result<DeviceBuild> build_device(const DeviceCode& code, const FindCompiler& find, const BuildOptions& options);

// Why the library does not run a build of its own that compiled: ptxas notes C7510 to C7514, wgmma instructions that
// wait for each other. Nothing: they do not.
std::optional<std::string> serialised(const DeviceBuild& build);

// A candidate with backend "cuda": its sources, and Ridgeline's kernel layer as ridge/kernel/*.cuh.
// Errors as of refuse(): a flag, path or define that is not allowed is a DeviceBuild with `error`.
Result<DeviceBuild> build_device_candidate(const record::Candidate& candidate, const std::string& arch,
                                           const DeviceCompiler& compiler, const BuildOptions& options,
                                           std::span<const std::string> macros = {});
// Why a CUDA candidate may not be built as it is, or nothing.
std::optional<std::string> refuse_device(const record::Candidate& candidate);

// Flags that change how kernels are compiled and nothing else: -use_fast_math and its parts, -maxrregcount=N,
// -lineinfo, --ptxas-options=-O*, --extra-device-vectorization, ...
bool device_flag_allowed(std::string_view flag);

}  // namespace ridge::toolchain
