// Content addresses: SHA-256 in lower-case hex.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ridge/result.h"

namespace ridge {

std::string sha256(std::string_view bytes);
Result<std::string> sha256_file(const std::filesystem::path& path);

// Bytes from the operating system's cryptographic generator; for seeds that a candidate must not guess.
std::uint64_t secret_seed();

}  // namespace ridge
