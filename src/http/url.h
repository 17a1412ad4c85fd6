// Parts of addresses.
#pragma once

#include <string>
#include <string_view>

namespace ridge::http {

// Everything but letters, digits, "-._~" and slashes as %XX.
std::string encoded_path(std::string_view path);
// The same for one part of a path or a query: slashes are encoded, too.
std::string encoded_part(std::string_view part);

}  // namespace ridge::http
