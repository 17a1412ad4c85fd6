// The key of this installation: 32 random bytes that only its user can read, made once. What is kept in a cache is
// tagged with it, so that a file which another program put there is told from one of ours.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "ridge/result.h"

namespace ridge {

// The 32 bytes of <directory>/key, made on the first call by any process. The error names what is wrong with the file
// (another owner, readable by others, another length) and the way out; a key that is in doubt is never used.
Result<std::string> installation_key(const std::filesystem::path& directory = default_state_directory());

// HMAC-SHA256 in lower-case hex.
std::string hmac_sha256(std::string_view key, std::string_view text);

// Whether two tags are equal, in a time that does not depend on where they differ.
bool same_tag(std::string_view a, std::string_view b);

}  // namespace ridge
