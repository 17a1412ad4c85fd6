#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ridge {

// The bytes that a base64 text stands for (RFC 4648, with padding); nothing: it is none, or not as it is written.
std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace ridge
