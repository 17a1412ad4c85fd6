// Reading a file that may be larger than the usual 64 MiB of read_file(), and the one rule of every reader: regular
// files only, and no more than was agreed. A named pipe would hang the reader, /dev/zero would fill the memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "ridge/result.h"

namespace ridge {

inline constexpr std::size_t kUsualFileBytes = std::size_t{64} << 20;  // what read_file() takes
inline constexpr std::size_t kJournalBytes = std::size_t{1} << 30;     // raw samples add up
inline constexpr std::size_t kCodeFileBytes = std::size_t{4} << 30;    // a vendor's library

// Errors name the file and what it is (a folder, a named pipe, a device), or its bytes and how many are read at most.
Result<std::string> read_file_up_to(const std::filesystem::path& path, std::size_t most_bytes);

// Whether it can be read by that rule, for readers that take a part of it.
Status check_regular_file(const std::filesystem::path& path, std::size_t most_bytes);

}  // namespace ridge
