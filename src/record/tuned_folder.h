// Where tuned tables are kept in a cache folder.
#pragma once

#include <filesystem>
#include <vector>

#include "record/tuned.h"
#include "ridge/result.h"

namespace ridge::record {

std::filesystem::path tuned_folder(const std::filesystem::path& cache);
// Adds the lines to the tables of their devices, durably, each in place of an older one for its bucket. Several
// processes may add at once.
Status keep_tuned(const std::vector<TunedChoice>& choices, const std::filesystem::path& cache);
// Removes the tables of all devices; how many there were.
Result<int> remove_tuned(const std::filesystem::path& cache);

}  // namespace ridge::record
