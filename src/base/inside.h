// Files that stay in their folder, whatever a record of others or a request says: no absolute path, no "..", no
// symbolic link elsewhere.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ridge/result.h"

namespace ridge {

// Whether a path, its links followed, is a folder or lies in it. Links in circles do not.
bool lies_in(const std::filesystem::path& file, const std::filesystem::path& directory);
// write_file_durably(directory / path), or kInvalidArgument for a path that leads out of the folder.
Status write_inside(const std::filesystem::path& directory, const std::string& path, std::string_view content);

}  // namespace ridge
