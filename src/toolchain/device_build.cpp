#include "toolchain/device_build.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "device/cuda/library.h"
#include "record/launch_plan.h"
#include "toolchain/cache.h"
#include "toolchain/device_includes.h"
#include "toolchain/names.h"
#include "toolchain/remembered_compiler.h"
#include "toolchain/scratch.h"

namespace ridge::toolchain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLayerFolder = "ridge/kernel/";

// Sources, defines, flags and architecture as text, long texts by their digests.
std::string description(const DeviceCode& code) {
  std::string text = code.arch + "\n";
  for (const std::string& flag : code.flags) text += "flag " + flag + "\n";
  for (const std::string& define : code.defines) text += "define " + define + "\n";
  for (const record::SourceFile& file : code.files) {
    text += fmt::format("{} {} {}\n", file.path, file.text.size(), sha256(file.text));
  }
  return text;
}

std::string cache_key(const DeviceCode& code, const CompilerName& compiler) {
  const std::string text =
      fmt::format("device format 2\n{}\n{}\n{}", compiler.version, compiler.identity, description(code));
  return sha256(text + toolkit_headers(code.files, device::cuda::toolkit_include_folders()));
}

Status write_file(const fs::path& path, const std::string& text) {
  RIDGE_CHECK_OK(make_directories(path.parent_path()));
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return make_error(ErrorCode::kIo, "cannot write {}", path.string());
  return ok_status();
}

std::string_view next_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  return line;
}

// The number that stands before `unit`: "Used 58 registers".
std::optional<double> number_before(std::string_view line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  std::size_t begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  double value = 0;
  const auto [end, failure] = std::from_chars(line.data() + begin, line.data() + at, value);
  return failure == std::errc() && begin < at ? std::optional(value) : std::nullopt;
}

// The name of a count: notes of ptxas that wgmma instructions must wait for each other, because it could not keep their
// registers apart.
constexpr const char* kSerialised = "wgmma_serialised";

// What ptxas -v says, the largest over the kernels.
std::map<std::string, double> count_resources(std::string_view log) {
  std::map<std::string, double> counts;
  const auto keep_largest = [&counts](const char* name, std::optional<double> value) {
    if (value) counts[name] = std::max(counts[name], *value);
  };
  while (!log.empty()) {
    const std::string_view line = next_line(log);
    keep_largest("registers", number_before(line, " registers"));
    keep_largest("shared_bytes", number_before(line, " bytes smem"));
    keep_largest("stack_bytes", number_before(line, " bytes stack frame"));
    const auto stores = number_before(line, " bytes spill stores"), loads = number_before(line, " bytes spill loads");
    if (stores && loads) keep_largest("spill_bytes", *stores + *loads);
    if (line.find("Compiling entry function") != std::string_view::npos) counts["kernels"] += 1;
    for (const char* note : {"C7510", "C7511", "C7512", "C7514"}) {
      if (line.find(note) != std::string_view::npos) counts[kSerialised] += 1;
    }
  }
  return counts;
}

// Line `number` of the source that the error is in, as the compiler names it: "kernel.cu(12): error: ...".
std::string source_line(std::string_view error, const DeviceCode& code) {
  const std::size_t open = error.find('('), close = error.find(')', open);
  if (open == std::string_view::npos || close == std::string_view::npos) return {};
  std::size_t number = 0;
  std::from_chars(error.data() + open + 1, error.data() + close, number);
  for (const record::SourceFile& file : code.files) {
    if (error.substr(0, open) != file.path) continue;
    std::string_view rest = file.text, line;
    for (std::size_t i = 0; i < number; ++i) line = next_line(rest);
    return std::string(line);
  }
  return {};
}

std::string first_error(const std::string& log, const DeviceCode& code) {
  std::string_view rest = log;
  while (!rest.empty()) {
    const std::string_view line = next_line(rest);
    if (line.find("error") == std::string_view::npos) continue;
    const std::string source = source_line(line, code);
    return source.empty() ? std::string(line) : fmt::format("{}: {}", line, source);
  }
  return log.empty() ? "the compiler gave no reason" : log.substr(0, log.find('\n'));
}

std::optional<DeviceBuild> take_cached(const ArtifactCache& cache, const std::string& key, std::string& refused) {
  ArtifactCache::Found found = cache.find(key);
  if (!found.refused.empty()) refused = std::move(found.refused);
  if (!found.entry) return std::nullopt;
  DeviceBuild outcome;
  outcome.artifact = found.entry->artifact;
  outcome.evidence = std::move(found.entry->evidence);
  outcome.evidence.cached = true;
  outcome.evidence.wall = 0;
  outcome.cubin = std::move(found.entry->bytes);
  return outcome;
}

// The line table of a kernel holds the folder that its sources lay in; overwritten, the same code makes the same object
// again in another folder whose name is as long.
void forget_folder(const std::string& folder, std::string& cubin) {
  for (std::size_t at = cubin.find(folder); at != std::string::npos; at = cubin.find(folder, at)) {
    std::fill_n(cubin.begin() + static_cast<std::ptrdiff_t>(at) + 1, folder.size() - 1, '_');
  }
}

// The line table holds the times at which the sources were written, too.
Status forget_time(const fs::path& file) {
  std::error_code failure;
  fs::last_write_time(file, fs::file_time_type::clock::from_sys(std::chrono::sys_seconds{}), failure);
  if (failure) return make_error(ErrorCode::kIo, "cannot set the time of {}: {}", file.string(), failure.message());
  return ok_status();
}

// Compiles in a folder of its own; there is no cubin when the compiler refused.
Result<DeviceBuild> build_apart(const DeviceCode& code, const DeviceCompiler& compiler, const BuildOptions& options,
                                DeviceBuild outcome) {
  const auto start = std::chrono::steady_clock::now();
  RIDGE_TRY(directory, TempDir::create("ridge-build"));
  for (const record::SourceFile& file : code.files) {
    RIDGE_CHECK_OK(write_file(directory.path() / file.path, file.text));
    RIDGE_CHECK_OK(forget_time(directory.path() / file.path));
  }
  RIDGE_TRY(output, compiler.compile(code, directory.path(), options));
  outcome.evidence.wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.evidence.command = output.command;
  const std::string log = shortened(output.log, directory.path().string());
  outcome.evidence.log = log;
  if (!output.ok) {
    outcome.error = first_error(log, code);
    return outcome;
  }
  forget_folder(directory.path().string(), output.cubin);
  outcome.evidence.counts = count_resources(output.log);
  outcome.evidence.artifact = sha256(output.cubin);
  outcome.cubin = std::move(output.cubin);
  return outcome;
}

Result<DeviceBuild> build_fresh(const DeviceCode& code, const DeviceCompiler& compiler, const BuildOptions& options,
                                const ArtifactCache& cache, const std::string& key, DeviceBuild begun) {
  RIDGE_TRY(directory, cache.scratch());
  const Scratch whole{directory};
  RIDGE_TRY(outcome, build_apart(code, compiler, options, std::move(begun)));
  if (!outcome.ok()) return outcome;
  RIDGE_CHECK_OK(write_file_durably(directory / kCubinName, outcome.cubin));
  RIDGE_TRY(entry, cache.commit(key, directory, outcome.evidence));
  outcome.artifact = entry.artifact;
  // Another process may have been faster with its own build of the same key; its bytes are the ones that stay.
  if (entry.evidence.artifact != outcome.evidence.artifact) {
    outcome.cubin = std::move(entry.bytes);
    outcome.evidence.artifact = entry.evidence.artifact;
  }
  return outcome;
}

}  // namespace

std::optional<std::string> serialised(const DeviceBuild& build) {
  const auto found = build.evidence.counts.find(kSerialised);
  if (found == build.evidence.counts.end() || found->second == 0) return std::nullopt;
  return fmt::format(
      "ptxas serialised its wgmma instructions (C7510 to C7514, said {:.0f} times), which halves its speed",
      found->second);
}

std::string source_key(const DeviceCode& code) { return sha256("packed device code 1\n" + description(code)); }

Result<DeviceBuild> build_device(const DeviceCode& code, const DeviceCompiler& compiler, const BuildOptions& options) {
  if (code.files.empty()) return invalid("device code without a source file");
  DeviceBuild outcome;
  outcome.evidence.compiler = compiler.version();
  if (options.past_cache) return build_apart(code, compiler, options, std::move(outcome));
  const ArtifactCache cache(options.cache_directory, kCubinName, options.authenticated);
  const std::string key = cache_key(code, name_of(compiler));
  std::string refused;
  if (auto found = take_cached(cache, key, refused)) return std::move(*found);
  const bool keeps = cache.without_key().empty();
  RIDGE_TRY(built, keeps ? build_fresh(code, compiler, options, cache, key, std::move(outcome))
                         : build_apart(code, compiler, options, std::move(outcome)));
  note_refusal(refused, cache.without_key(), built.evidence);
  return built;
}

Result<DeviceBuild> build_device(const DeviceCode& code, const FindCompiler& find, const BuildOptions& options) {
  if (code.files.empty()) return invalid("device code without a source file");
  const auto known = remembered_compiler(options.cache_directory);
  std::string refused;
  if (known && !options.past_cache) {
    const ArtifactCache cache(options.cache_directory, kCubinName, options.authenticated);
    if (auto found = take_cached(cache, cache_key(code, *known), refused)) return std::move(*found);
  }
  RIDGE_TRY(compiler, find());
  if (known != name_of(*compiler)) remember_compiler(options.cache_directory, *compiler);
  RIDGE_TRY(built, build_device(code, *compiler, options));
  if (!refused.empty()) note_refusal(refused, {}, built.evidence);
  return built;
}

std::optional<std::string> refuse_device(const record::Candidate& candidate) {
  if (candidate.backend != "cuda") {
    return fmt::format("backend \"{}\" cannot be built here; this is the cuda toolchain", candidate.backend);
  }
  if (candidate.sources.empty()) return "the candidate has no source file";
  for (const record::SourceFile& file : candidate.sources) {
    if (!stays_inside(file.path)) return fmt::format("source path \"{}\" leaves the candidate's folder", file.path);
    if (*fs::path(file.path).begin() == "ridge" || file.path == kCubinName) {
      return fmt::format("source path \"{}\" is reserved", file.path);
    }
    if (const std::string outside = include_outside(file); !outside.empty()) {
      return fmt::format(
          "{}: #include {} leaves the candidate's folder; include its own files, ridge/kernel/*.cuh and "
          "headers of the CUDA toolkit by name, each alone in its line",
          file.path, outside);
    }
  }
  for (const auto& [name, value] : candidate.defines) {
    if (!is_macro_name(name)) return fmt::format("define \"{}\" is not a macro name", name);
  }
  for (const std::string& flag : candidate.flags) {
    if (!device_flag_allowed(flag)) {
      return fmt::format(
          "compiler flag \"{}\" is not allowed; allowed are --use_fast_math, --fmad=, --ftz=, --prec-div=, "
          "--prec-sqrt=, --maxrregcount=, --extra-device-vectorization and --ptxas-options=-O0 to -O3",
          flag);
    }
  }
  return std::nullopt;
}

Result<DeviceBuild> build_device_candidate(const record::Candidate& candidate, const std::string& arch,
                                           const DeviceCompiler& compiler, const BuildOptions& options,
                                           std::span<const std::string> macros) {
  DeviceBuild refused;
  refused.evidence.candidate = candidate.id();
  refused.evidence.compiler = compiler.version();
  if (const auto reason = refuse_device(candidate)) {
    refused.error = *reason;
    return refused;
  }
  DeviceCode code;
  code.files = candidate.sources;
  for (const EmbeddedFile& header : device::cuda::kernel_layer()) {
    code.files.push_back({kLayerFolder + std::string(header.path), std::string(header.text)});
  }
  RIDGE_TRY(defines, record::define_values(candidate));
  for (const auto& [name, value] : defines) code.defines.push_back(fmt::format("{}={}", name, value));
  code.defines.insert(code.defines.end(), macros.begin(), macros.end());
  code.flags = candidate.flags;
  code.arch = arch;
  RIDGE_TRY(built, build_device(code, compiler, options));
  built.evidence.candidate = candidate.id();
  return built;
}

bool device_flag_allowed(std::string_view flag) {
  constexpr std::array<std::string_view, 9> kExact = {
      "--use_fast_math",     "-use_fast_math",       "--extra-device-vectorization",
      "-lineinfo",           "--generate-line-info", "--ptxas-options=-O0",
      "--ptxas-options=-O1", "--ptxas-options=-O2",  "--ptxas-options=-O3"};
  if (std::ranges::find(kExact, flag) != kExact.end()) return true;
  for (const std::string_view prefix : {"--fmad=", "--ftz=", "--prec-div=", "--prec-sqrt="}) {
    if (flag.starts_with(prefix)) return flag.substr(prefix.size()) == "true" || flag.substr(prefix.size()) == "false";
  }
  for (const std::string_view prefix : {"--maxrregcount=", "-maxrregcount="}) {
    if (!flag.starts_with(prefix)) continue;
    const std::string_view number = flag.substr(prefix.size());
    return !number.empty() && number.size() <= 3 && number.find_first_not_of("0123456789") == std::string_view::npos;
  }
  return false;
}

}  // namespace ridge::toolchain
