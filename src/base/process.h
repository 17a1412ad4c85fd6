// Runs one program to its end: own process group, limits, captured output, the whole tree killed on a limit; and, where
// it is asked for, name spaces of its own.
// Only toolchain, execute, inspect and propose/agent may call this (checked by tools/check_layers.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/confinement.h"
#include "ridge/result.h"

namespace ridge {

struct ProcessSpec {
  std::vector<std::string> argv;                   // argv[0] is looked up in PATH; no shell is involved
  std::filesystem::path directory;                 // empty: the current one
  std::map<std::string, std::string> environment;  // added to, or replacing, the inherited variables
  bool clear_environment = false;                  // start from `environment` alone
  std::string standard_input;
  double timeout = 600.0;                     // wall seconds, then the tree is killed
  std::uint64_t memory_limit_bytes = 0;       // address space per process; 0 = no limit
  std::size_t output_limit_bytes = 4u << 20;  // per stream; the rest is read and dropped
  // Called with every complete line of standard error as it arrives; for progress.
  std::function<void(std::string_view)> on_error_line;
  // Asked about ten times a second; true kills the tree (a user's stop).
  std::function<bool()> should_stop;
  // Name spaces of its own. Where the machine refuses them the program runs without, and the result says so; what it
  // starts is then found and killed as far as it can be (every_descendant).
  std::optional<Confinement> confinement;
  // Everything the program started ends with it, also what left its process group.
  bool every_descendant = false;
};

struct ProcessResult {
  enum class End { kExited, kSignalled, kTimedOut, kStopped };
  End end = End::kExited;
  int exit_code = 0;  // valid for kExited
  int signal = 0;     // valid for kSignalled
  std::string output;
  std::string error_output;
  double wall = 0.0;         // seconds
  std::string not_confined;  // why it ran without the name spaces that were asked for; empty: it ran in them

  [[nodiscard]] bool succeeded() const { return end == End::kExited && exit_code == 0; }
  // "exited with 1", "killed by signal 11 (Segmentation fault)", "timed out after 10.0 s"
  [[nodiscard]] std::string describe() const;
};

// An Error only when the program could not be started at all.
Result<ProcessResult> run_process(const ProcessSpec& spec);

// "gcc -O3 'a file.cpp'": how a person would type it.
std::string quote_command(const std::vector<std::string>& argv);

// The absolute path of a program in PATH, or empty.
std::string find_program(std::string_view name);

}  // namespace ridge
