// The token that clients of `ridge serve` and `ridge mcp --port` show.
#pragma once

#include <filesystem>
#include <string>

#include "ridge/result.h"

namespace ridge::cli {

// What is in the file, which only its owner may read; a missing one is made with a new token.
Result<std::string> token_in(const std::filesystem::path& file);

}  // namespace ridge::cli
