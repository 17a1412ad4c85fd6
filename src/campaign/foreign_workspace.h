// The second foreign layout: a workspace whose memory/ holds one record per version, v0 the baseline.
#pragma once

#include <filesystem>

#include "campaign/foreign.h"

namespace ridge::campaign {

// Of both layouts: no file that is read is larger, and a figure is printed to this accuracy.
inline constexpr std::size_t kLargestForeignFile = 16u << 20;
inline constexpr double kForeignRounding = 0.002;

// Records in memory/, and neither a manifest nor rounds/ beside them.
bool is_workspace(const std::filesystem::path& directory);
LintReport lint_workspace(const std::filesystem::path& directory);

}  // namespace ridge::campaign
