// The second foreign layout: a workspace whose memory/ holds one record per version, v0 the baseline.
#pragma once

#include <filesystem>

#include "campaign/foreign.h"

namespace ridge::campaign {

// Records in memory/, and neither a manifest nor rounds/ beside them.
bool is_workspace(const std::filesystem::path& directory);
LintReport lint_workspace(const std::filesystem::path& directory);

}  // namespace ridge::campaign
