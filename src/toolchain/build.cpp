#include "toolchain/build.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "base/process.h"
#include "toolchain/cache.h"
#include "toolchain/confined.h"
#include "toolchain/dependencies.h"
#include "toolchain/flags.h"
#include "toolchain/listing.h"
#include "toolchain/names.h"
#include "toolchain/scratch.h"

namespace ridge::toolchain {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kDefaultFlags = {"-std=c++20", "-O3", "-march=native", "-fPIC", "-Wall"};
// Full relocation at load time, so that no lazy binding happens inside a timed call.
constexpr std::array<std::string_view, 4> kLinkFlags = {"-shared", "-Wl,--no-undefined", "-Wl,-z,now",
                                                        "-Wl,--require-defined=ridge_kernel"};
// Nothing of an object that is measured may run while it is loaded (evaluate/artifact.h): no start files, whose place
// for static objects then is the kernel itself; no library linked in, because libstdc++ has constructors; no name that
// another library could find.
constexpr const char* kExportsFile = "ridge_exports";
constexpr std::array<std::string_view, 3> kPlainLinkFlags = {"-nostartfiles", "-Wl,--defsym=__dso_handle=ridge_kernel",
                                                             "-Wl,--version-script=ridge_exports"};
constexpr std::array<std::string_view, 3> kSanitizedLinkFlags = {"-static-libgcc", "-static-libstdc++",
                                                                 "-fsanitize=address,undefined"};
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

// What they read, as make would have it.
constexpr const char* kIncluded = "ridge_included.d";
constexpr const char* kAssembled = "ridge_assembled.d";

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
  const std::span<const std::string_view> own = options.sanitize ? kSanitizedLinkFlags : kPlainLinkFlags;
  flags.insert(flags.end(), own.begin(), own.end());
  return flags;
}

std::string cache_key(const record::Candidate& candidate, const Compiler& compiler, const BuildOptions& options) {
  std::string text = fmt::format("format 2\n{}\n{}\n{}\n{}\n", compiler.program, compiler.version, processor_identity(),
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
         {" error: ", "undefined reference", "required symbol", "cannot find", "error:", "Error:"}) {
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
    // What it reads, by its own account and, for .incbin and .include, by that of the assembler.
    compile.insert(compile.end(), {"-MD", "-MF", kIncluded});
    if (own_assembler()) compile.insert(compile.end(), {"-pipe", fmt::format("-Wa,--MD,{}", kAssembled)});
    folder_.emplace(compiler_.program, directory_, options_.confined);
    RIDGE_TRY(compiled, tool(compile, build));
    if (!compiled || !only_declared(build)) return false;
    RIDGE_TRY(linked, tool(link, build));
    if (!linked) return false;
    if (const auto refusal = refuse_size(fs::file_size(directory_ / kArtifactName))) {
      build.error = *refusal;
      return false;
    }
    count(build);
    RIDGE_CHECK_OK(folder_->take_back({kArtifactName}));
    return true;
  }

  // Leaves only the artefact.
  void sweep() const {
    for (const record::SourceFile& file : candidate_.sources) remove(*fs::path(file.path).begin());
    for (const char* name : {"ridge_object.o", "ridge", kExportsFile, kIncluded, kAssembled}) remove(name);
  }

 private:
  void remove(const fs::path& name) const {
    std::error_code ignored;
    fs::remove_all(directory_ / name, ignored);
  }

  Status write_sources() const {
    RIDGE_CHECK_OK(write_file_durably(directory_ / "ridge" / "candidate.h", candidate_header()));
    RIDGE_CHECK_OK(write_file_durably(directory_ / kExportsFile, "{ global: ridge_kernel; local: *; };\n"));
    for (const record::SourceFile& file : candidate_.sources) {
      RIDGE_CHECK_OK(write_file_durably(directory_ / file.path, file.text));
    }
    return ok_status();
  }

  // clang assembles by itself and does not say what its assembler read.
  [[nodiscard]] bool own_assembler() const { return compiler_.version.find("clang") == std::string::npos; }

  // False when the compiler or the assembler read a file that is neither declared nor the toolchain's.
  [[nodiscard]] bool only_declared(Build& build) const {
    if (!options_.declared_only) return true;
    std::vector<std::string> declared = {"ridge/candidate.h"};
    for (const record::SourceFile& file : candidate_.sources) declared.push_back(file.path);
    const auto folders = header_folders(compiler_.program);
    const Result<std::string> included = read_file(directory_ / kIncluded);
    const Result<std::string> assembled = own_assembler() ? read_file(directory_ / kAssembled) : std::string();
    if (!folders || !included || !assembled) {
      build.error = "what the compiler read is not known: " +
                    (folders ? (included ? assembled : included).error().message : folders.error().message);
      return false;
    }
    std::vector<std::string> read = read_dependencies(*included);
    if (const auto outside = undeclared(read, directory_, declared, *folders)) {
      build.error =
          fmt::format("#include of {}, which is none of the candidate's {} files and no header of the compiler",
                      *outside, candidate_.sources.size());
    } else if (const auto more = undeclared(read_dependencies(*assembled), directory_, declared, {})) {
      build.error = fmt::format("the assembler read {}, which is none of the candidate's {} files", *more,
                                candidate_.sources.size());
    }
    return build.error.empty();
  }

  Result<bool> tool(const std::vector<std::string>& argv, Build& build) const {
    ProcessSpec spec = folder_->process();
    spec.argv = argv;
    spec.timeout = options_.timeout;
    spec.memory_limit_bytes = options_.memory_limit_bytes;
    // __DATE__ and __TIME__ are always the same: an object must come out as it did when it is built again.
    for (const auto& [name, value] : {std::pair("GCC_COLORS", ""), {"SOURCE_DATE_EPOCH", "0"}, {"CCACHE_DISABLE", "1"}})
      spec.environment[name] = value;
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
    const std::string program = find_program("objdump");
    if (program.empty()) return;
    ProcessSpec spec = folder_->process();
    spec.argv = {program, "-d", "--no-show-raw-insn", "ridge_object.o"};
    spec.timeout = options_.timeout;
    spec.output_limit_bytes = 64u << 20;
    const Result<ProcessResult> ended = run_process(spec);
    if (ended && ended->succeeded()) build.evidence.counts = count_listing(ended->output);
  }

  const record::Candidate& candidate_;
  const Compiler& compiler_;
  const BuildOptions& options_;
  fs::path directory_;
  std::optional<ConfinedFolder> folder_;  // once the sources are written
};

// Builds in `directory`, which then holds nothing but the artefact, or nothing when a tool refused.
Status build_in(const fs::path& directory, const record::Candidate& candidate, const Compiler& compiler,
                const BuildOptions& options, Build& outcome) {
  const auto start = std::chrono::steady_clock::now();
  Job job(candidate, compiler, options, directory);
  RIDGE_TRY(built, job.run(outcome));
  outcome.evidence.wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!built) return ok_status();
  job.sweep();
  RIDGE_TRY(bytes, read_file(directory / kArtifactName));
  outcome.evidence.artifact = sha256(bytes);
  RIDGE_TRY(object, SealedObject::create(bytes));
  outcome.object = std::move(object);
  outcome.artifact = outcome.object->path();
  return ok_status();
}

Result<Build> build_fresh(const record::Candidate& candidate, const Compiler& compiler, const BuildOptions& options,
                          const ArtifactCache& cache, const std::string& key, Build outcome) {
  RIDGE_TRY(directory, cache.scratch());
  const Scratch scratch{directory};
  RIDGE_CHECK_OK(build_in(directory, candidate, compiler, options, outcome));
  if (!outcome.ok() || !cache.without_key().empty()) return outcome;
  RIDGE_TRY(entry, cache.commit(key, directory, outcome.evidence));
  outcome.artifact = entry.artifact;
  // Another process may have been faster with its own build of the same key; its bytes are the ones that stay.
  if (entry.evidence.artifact != outcome.evidence.artifact) {
    RIDGE_TRY(object, SealedObject::create(entry.bytes));
    outcome.object = std::move(object);
    outcome.evidence.artifact = entry.evidence.artifact;
  }
  return outcome;
}

Result<Build> build_apart(const record::Candidate& candidate, const Compiler& compiler, const BuildOptions& options,
                          Build outcome) {
  RIDGE_TRY(directory, TempDir::create("ridge-build"));
  RIDGE_CHECK_OK(build_in(directory.path(), candidate, compiler, options, outcome));
  return outcome;
}

}  // namespace

std::optional<std::string> refuse_size(std::uintmax_t bytes) {
  constexpr std::uintmax_t kMaxObjectBytes = 64u << 20;
  if (bytes <= kMaxObjectBytes) return std::nullopt;
  return fmt::format(
      "the built object has {} bytes, more than the {} that are loaded; compute tables in the first call instead of "
      "storing them",
      bytes, kMaxObjectBytes);
}

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
    if (*fs::path(file.path).begin() == "ridge" || file.path == kArtifactName || file.path == "ridge_object.o" ||
        file.path == kExportsFile) {
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
  if (options.past_cache) return build_apart(candidate, compiler, options, std::move(outcome));
  const ArtifactCache cache(options.cache_directory, kArtifactName, options.authenticated);
  const std::string key = cache_key(candidate, compiler, options);
  ArtifactCache::Found found = cache.find(key);
  if (found.entry) {
    RIDGE_TRY(object, SealedObject::create(found.entry->bytes));
    outcome.object = std::move(object);
    outcome.artifact = found.entry->artifact;
    outcome.evidence = std::move(found.entry->evidence);
    outcome.evidence.candidate = candidate.id();
    outcome.evidence.cached = true;
    outcome.evidence.wall = 0;
    return outcome;
  }
  RIDGE_TRY(fresh, build_fresh(candidate, compiler, options, cache, key, std::move(outcome)));
  note_refusal(found.refused, cache.without_key(), fresh.evidence);
  return fresh;
}

std::vector<Result<Build>> build_all(std::span<const record::Candidate> candidates, const Compiler& compiler,
                                     const BuildOptions& options, int jobs) {
  std::vector<Result<Build>> results(candidates.size(), Result<Build>(Build{}));
  in_parallel(candidates.size(), static_cast<std::size_t>(std::max(jobs, 1)),
              [&](std::size_t i) { results[i] = build(candidates[i], compiler, options); });
  return results;
}

}  // namespace ridge::toolchain
