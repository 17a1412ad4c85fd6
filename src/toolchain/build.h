// Candidate source + flags -> shared object, in a content-addressed cache.
//
// The compiler runs in name spaces of its own, in which there is nothing but the toolchain's folders, the public header
// and the declared sources; with or without them, what it read by its own account must be one of those.
//
// The key of an artefact is the SHA-256 of everything that can change it: the sources, the public header, the defines,
// the flags, the compiler's version and the processor that -march=native means. An entry is complete or absent: it is
// built beside the cache and renamed into it. It counts only with the tag of this installation's key (cache.h), and
// what was verified is kept in memory that no one can change: what is loaded is what the digest says.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "record/measurement.h"
#include "ridge/result.h"
#include "toolchain/sealed_object.h"

namespace ridge::toolchain {

struct Compiler {
  std::string program;  // absolute path
  std::string version;  // first line of --version
};

// The first of g++, c++, clang++ in PATH.
Result<Compiler> find_host_compiler();

struct BuildOptions {
  std::filesystem::path cache_directory;
  double timeout = 120.0;                         // seconds per tool
  std::uint64_t memory_limit_bytes = 4ull << 30;  // address space of the compiler
  bool sanitize = false;                          // with AddressSanitizer and UBSan, lightly optimised
  bool past_cache = false;    // built in a private folder that is removed; the cache is neither read nor written
  bool authenticated = true;  // false in tests only: a cache that is believed without a tag
  bool confined = true;       // false in tests only: the compiler sees this machine's files
  bool declared_only = true;  // false in tests only: the compiler may have read any file
};

// The run-time library that a process must preload to load what was built with `sanitize`. The error says what to
// install.
Result<std::filesystem::path> sanitizer_runtime(const Compiler& compiler);

// What became of one build. `error` is empty exactly when `artifact` can be loaded.
struct Build {
  record::BuildEvidence evidence;
  std::filesystem::path artifact;              // in the cache; of `object` where nothing is kept
  std::shared_ptr<const SealedObject> object;  // the bytes that the evidence's digest is of
  std::string error;  // the compiler's first error with its line, or why the candidate was refused
  [[nodiscard]] bool ok() const { return error.empty(); }
};

// An Error is the harness's: no compiler, no space. A candidate that does not compile is a Build with `error`.
Result<Build> build(const record::Candidate& candidate, const Compiler& compiler, const BuildOptions& options);

// The same for several candidates, `jobs` at a time; the results are in the order of the candidates.
std::vector<Result<Build>> build_all(std::span<const record::Candidate> candidates, const Compiler& compiler,
                                     const BuildOptions& options, int jobs);

// Why a candidate may not be built as it is (a flag outside the allow-list, a path that leaves its folder, a define
// that is no macro name), or nothing.
std::optional<std::string> refuse(const record::Candidate& candidate);

// Why an object of that size is neither kept nor loaded, or nothing: the file system of the sandbox lies in memory.
std::optional<std::string> refuse_size(std::uintmax_t bytes);

// Flags every candidate is compiled with, before its own.
std::span<const std::string_view> default_flags();

// The text of ridge/candidate.h.
std::string_view candidate_header();

}  // namespace ridge::toolchain
