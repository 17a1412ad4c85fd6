// Where tuned tables are kept in a cache folder.
#pragma once

#include <filesystem>

#include "ridge/result.h"

namespace ridge::record {

std::filesystem::path tuned_folder(const std::filesystem::path& cache);
// Removes the tables of all devices; how many there were.
Result<int> remove_tuned(const std::filesystem::path& cache);

}  // namespace ridge::record
