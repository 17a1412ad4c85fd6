#include "toolchain/build.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "base/process.h"
#include "toolchain/cache.h"
#include "toolchain/flags.h"
#include "toolchain/listing.h"
#include "toolchain/names.h"

namespace ridge::toolchain {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kDefaultFlags = {"-std=c++20", "-O3", "-march=native", "-fPIC", "-Wall"};
// Full relocation at load time, so that no lazy binding happens inside a timed call.
constexpr std::array<std::string_view, 6> kLinkFlags = {"-shared",           "-static-libgcc",
                                                        "-static-libstdc++", "-Wl,--no-undefined",
                                                        "-Wl,-z,now",        "-Wl,--require-defined=ridge_kernel"};
// After the candidate's own flags: the code under test is the candidate's, its speed is not. Unaligned vectors are no
// fault on this machine and kernels use them on purpose; the check of virtual tables wants pipes, which the sandbox
// refuses.
constexpr std::array<std::string_view, 7> kSanitizeFlags = {"-O1",
                                                            "-g1",
                                                            "-fno-omit-frame-pointer",
                                                            "-fsanitize=address,undefined",
                                                            "-fno-sanitize=alignment,vptr",
                                                            "-fno-sanitize-recover=all",
                                                            "-fno-lto"};

// Model and feature flags of the processor: what -march=native depends on.
std::string processor_identity() {
  static const std::string identity = [] {
    const Result<std::string> text = read_file("/proc/cpuinfo");
    std::string found;
    if (!text) return found;
    for (const std::string_view key : {"model name", "stepping", "flags", "Features", "CPU part"}) {
      const std::size_t at = text->find(std::string(key));
      if (at != std::string::npos) found += text->substr(at, text->find('\n', at) - at) + "\n";
    }
    return found;
  }();
  return identity;
}

std::vector<std::string> compile_flags(const record::Candidate& candidate, const BuildOptions& options) {
  std::vector<std::string> flags(kDefaultFlags.begin(), kDefaultFlags.end());
  flags.insert(flags.end(), candidate.flags.begin(), candidate.flags.end());
  for (const auto& [name, value] : candidate.defines) flags.push_back(fmt::format("-D{}={}", name, value));
  if (options.sanitize) flags.insert(flags.end(), kSanitizeFlags.begin(), kSanitizeFlags.end());
  return flags;
}

std::vector<std::string> link_flags(const record::Candidate& candidate, const BuildOptions& options) {
  std::vector<std::string> flags(kLinkFlags.begin(), kLinkFlags.end());
  for (const std::string& flag : candidate.flags) {
    if (flag == "-fopenmp" || flag == "-pthread") flags.push_back(flag);
  }
  if (options.sanitize) flags.emplace_back("-fsanitize=address,undefined");
  return flags;
}

std::string cache_key(const record::Candidate& candidate, const Compiler& compiler, const BuildOptions& options) {
  std::string text = fmt::format("format 1\n{}\n{}\n{}\n{}\n", compiler.program, compiler.version, processor_identity(),
                                 sha256(candidate_header()));
  for (const std::string& flag : compile_flags(candidate, options)) text += flag + "\n";
  for (const std::string& flag : link_flags(candidate, options)) text += flag + "\n";
  for (const record::SourceFile& file : candidate.sources) {
    text += fmt::format("{} {} {}\n", file.path, file.text.size(), sha256(file.text));
  }
  return sha256(text);
}

// The first line that says what is wrong: "kernel.cpp:12:3: error: ...". collect2 only repeats that ld failed.
std::string first_error(const std::string& log) {
  std::string_view rest = log;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.starts_with("collect2")) continue;
    for (const std::string_view mark :
         {" error: ", "undefined reference", "required symbol", "cannot find", "error:"}) {
      if (line.find(mark) != std::string_view::npos) return std::string(line);
    }
  }
  return log.substr(0, log.find('\n'));
}

// One build in progress, inside a private directory.
class Job {
 public:
  Job(const record::Candidate& candidate, const Compiler& compiler, const BuildOptions& options, fs::path directory)
      : candidate_(candidate), compiler_(compiler), options_(options), directory_(std::move(directory)) {}

  // False when a tool refused; `build.error` then says why.
  Result<bool> run(Build& build) {
    RIDGE_CHECK_OK(write_sources());
    std::vector<std::string> compile = {compiler_.program, "-c", candidate_.sources[0].path, "-o",
                                        "ridge_object.o",  "-I."};
    for (std::string& flag : compile_flags(candidate_, options_)) compile.push_back(std::move(flag));
    std::vector<std::string> link = {compiler_.program, "ridge_object.o", "-o", kArtifactName};
    for (std::string& flag : link_flags(candidate_, options_)) link.push_back(std::move(flag));
    build.evidence.command = quote_command(compile);
    RIDGE_TRY(compiled, tool(compile, build));
    if (!compiled) return false;
    RIDGE_TRY(linked, tool(link, build));
    if (!linked) return false;
    count(build);
    return true;
  }

  // Leaves only the artefact.
  void sweep() const {
    for (const record::SourceFile& file : candidate_.sources) remove(*fs::path(file.path).begin());
    for (const char* name : {"ridge_object.o", "ridge"}) remove(name);
  }

 private:
  void remove(const fs::path& name) const {
    std::error_code ignored;
    fs::remove_all(directory_ / name, ignored);
  }

  Status write_sources() const {
    RIDGE_CHECK_OK(write_file_durably(directory_ / "ridge" / "candidate.h", candidate_header()));
    for (const record::SourceFile& file : candidate_.sources) {
      RIDGE_CHECK_OK(write_file_durably(directory_ / file.path, file.text));
    }
    return ok_status();
  }

  Result<bool> tool(const std::vector<std::string>& argv, Build& build) const {
    ProcessSpec spec;
    spec.argv = argv;
    spec.directory = directory_;
    spec.timeout = options_.timeout;
    spec.memory_limit_bytes = options_.memory_limit_bytes;
    spec.environment = {{"LC_ALL", "C"}, {"GCC_COLORS", ""}};
    RIDGE_TRY(ended, run_process(spec));
    build.evidence.log = shortened(build.evidence.log + ended.error_output, directory_.string());
    if (ended.succeeded()) return true;
    if (ended.end == ProcessResult::End::kExited) {
      build.error = first_error(shortened(ended.error_output, directory_.string()));
    } else {
      build.error = fmt::format("the compiler {}", ended.describe());
    }
    if (build.error.empty()) build.error = fmt::format("the compiler {}", ended.describe());
    return false;
  }

  // Evidence is a help, not a gate: without objdump the counts are simply absent.
  void count(Build& build) const {
    if (find_program("objdump").empty()) return;
    ProcessSpec spec;
    spec.argv = {"objdump", "-d", "--no-show-raw-insn", "ridge_object.o"};
    spec.directory = directory_;
    spec.timeout = options_.timeout;
    spec.output_limit_bytes = 64u << 20;
    const Result<ProcessResult> ended = run_process(spec);
    if (ended && ended->succeeded()) build.evidence.counts = count_listing(ended->output);
  }

  const record::Candidate& candidate_;
  const Compiler& compiler_;
  const BuildOptions& options_;
  fs::path directory_;
};

Result<Build> build_fresh(const record::Candidate& candidate, const Compiler& compiler, const BuildOptions& options,
                          const ArtifactCache& cache, const std::string& key, Build outcome) {
  const auto start = std::chrono::steady_clock::now();
  RIDGE_TRY(directory, cache.scratch());
  Job job(candidate, compiler, options, directory);
  Result<bool> built = job.run(outcome);
  outcome.evidence.wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!built || !*built) {
    std::error_code ignored;
    fs::remove_all(directory, ignored);
    if (!built) return built.error();
    return outcome;
  }
  job.sweep();
  RIDGE_TRY(digest, sha256_file(directory / kArtifactName));
  outcome.evidence.artifact = digest;
  RIDGE_TRY(entry, cache.commit(key, directory, outcome.evidence));
  outcome.artifact = entry.artifact;
  outcome.evidence.artifact = entry.evidence.artifact;
  return outcome;
}

}  // namespace

Result<Compiler> find_host_compiler() {
  for (const char* name : {"g++", "c++", "clang++"}) {
    const std::string program = find_program(name);
    if (program.empty()) continue;
    ProcessSpec spec;
    spec.argv = {program, "--version"};
    spec.timeout = 20.0;
    RIDGE_TRY(ended, run_process(spec));
    if (ended.succeeded()) return Compiler{program, ended.output.substr(0, ended.output.find('\n'))};
  }
  return with_hint(make_error(ErrorCode::kNotFound, "no C++ compiler (g++, c++, clang++) in PATH"),
                   "install g++; scripts/setup does it");
}

Result<fs::path> sanitizer_runtime(const Compiler& compiler) {
  ProcessSpec spec;
  spec.argv = {compiler.program, "-print-file-name=libasan.so"};
  spec.timeout = 20.0;
  RIDGE_TRY(ended, run_process(spec));
  const std::string name = ended.output.substr(0, ended.output.find('\n'));
  std::error_code failure;
  const fs::path found = fs::canonical(name, failure);  // without one the compiler prints the bare name
  if (!ended.succeeded() || failure || !fs::path(name).is_absolute()) {
    return with_hint(make_error(ErrorCode::kNotFound, "{} brings no AddressSanitizer run time", compiler.program),
                     "install g++ with its libasan; scripts/setup does it");
  }
  return found;
}

std::span<const std::string_view> default_flags() { return kDefaultFlags; }

std::optional<std::string> refuse(const record::Candidate& candidate) {
  if (candidate.backend != "cpu")
    return fmt::format("backend \"{}\" cannot be built here; this is the cpu toolchain", candidate.backend);
  if (candidate.sources.empty()) return "the candidate has no source file";
  for (const record::SourceFile& file : candidate.sources) {
    if (!stays_inside(file.path)) return fmt::format("source path \"{}\" leaves the candidate's folder", file.path);
    if (*fs::path(file.path).begin() == "ridge" || file.path == kArtifactName || file.path == "ridge_object.o") {
      return fmt::format("source path \"{}\" is reserved", file.path);
    }
  }
  for (const auto& [name, value] : candidate.defines) {
    if (!is_macro_name(name)) return fmt::format("define \"{}\" is not a macro name", name);
  }
  for (const std::string& flag : candidate.flags) {
    if (!flag_allowed(flag)) {
      return fmt::format(
          "compiler flag \"{}\" is not allowed; allowed are -O*, -m*, --param=*, -fopenmp, -pthread and -f* of "
          "code generation",
          flag);
    }
  }
  return std::nullopt;
}

Result<Build> build(const record::Candidate& candidate, const Compiler& compiler, const BuildOptions& options) {
  Build outcome;
  outcome.evidence.candidate = candidate.id();
  outcome.evidence.compiler = compiler.version;
  if (const auto reason = refuse(candidate)) {
    outcome.error = *reason;
    return outcome;
  }
  const ArtifactCache cache(options.cache_directory);
  const std::string key = cache_key(candidate, compiler, options);
  if (auto entry = cache.find(key)) {
    outcome.artifact = entry->artifact;
    outcome.evidence = std::move(entry->evidence);
    outcome.evidence.candidate = candidate.id();
    outcome.evidence.cached = true;
    outcome.evidence.wall = 0;
    return outcome;
  }
  return build_fresh(candidate, compiler, options, cache, key, std::move(outcome));
}

std::vector<Result<Build>> build_all(std::span<const record::Candidate> candidates, const Compiler& compiler,
                                     const BuildOptions& options, int jobs) {
  std::vector<Result<Build>> results(candidates.size(), Result<Build>(Build{}));
  in_parallel(candidates.size(), static_cast<std::size_t>(std::max(jobs, 1)),
              [&](std::size_t i) { results[i] = build(candidates[i], compiler, options); });
  return results;
}

}  // namespace ridge::toolchain
