// What the environment of the process decides for every module.
#pragma once

#include <filesystem>
#include <vector>

namespace ridge {

// The files or folders that an environment variable lists, separated by ':'.
std::vector<std::filesystem::path> places_in(const char* variable);

// Where built kernels, tuned tables and measured ceilings are kept: RIDGE_CACHE_DIR, else ridge/ in XDG_CACHE_HOME,
// else .cache/ridge in the home folder (HOME, or the user database where HOME is unset or empty), else a folder of this
// user in /tmp.
std::filesystem::path default_cache_directory();

// Where the key of this installation is kept (base/installation_key.h): RIDGE_STATE_DIR, else ridge/ in XDG_STATE_HOME,
// else .local/state/ridge in the home folder, else a folder of this user in /tmp.
std::filesystem::path default_state_directory();

// Instruction sets of x86-64 that code in this repository is written for, each including the ones before it.
enum class InstructionSet { kPortable, kAvx2, kAvx512 };

// The best instruction set that may be used: RIDGE_CPU_LIMIT=portable, avx2 or avx512 (the default: no limit). Tests
// run the code of lesser processors with it. Read once per process; another value is reported on standard error and
// does not limit.
InstructionSet instruction_set_limit();

}  // namespace ridge
