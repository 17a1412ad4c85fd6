// Which files a compilation read, as the compiler and the assembler list them, and whether they were its to read.
// Internal to this folder.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::toolchain {

// The names behind "target:" of rules as -MD writes them, with \-escapes and $$ undone.
std::vector<std::string> read_dependencies(std::string_view rules);

// The folders in which a compiler looks for the headers of <...>: as it says itself, asked once per program.
Result<std::vector<std::filesystem::path>> header_folders(const std::string& compiler);

// The first file that is neither one of `declared` (relative to `directory`) nor in one of the `folders`, or nothing.
std::optional<std::string> undeclared(const std::vector<std::string>& read, const std::filesystem::path& directory,
                                      std::span<const std::string> declared,
                                      std::span<const std::filesystem::path> folders);

}  // namespace ridge::toolchain
