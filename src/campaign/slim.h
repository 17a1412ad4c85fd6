// A small record of an ended campaign: of its folder only what its journal does not give is kept, and what a person
// reads first. Everything else is rendered when it is asked for, bit for bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "campaign/render.h"
#include "record/journal.h"

namespace ridge::campaign {

// All that the journal of an ended campaign gives: what render_campaign renders, memory, snapshots by content, the
// files of the worktree, the report.
Result<FileMap> all_rendered(const State& state, const record::JournalText& journal);

struct SlimReport {
  std::int64_t files = 0, bytes = 0;  // taken away, or written again
  std::vector<std::string> kept;      // differ from what the journal gives in what a person may change
};
// Takes away what can be rendered again, but for the manifest and the pages of the report. Refused, and nothing is
// touched: a campaign that has not ended, and one that `verify` objects to.
Result<SlimReport> slim_campaign(const std::filesystem::path& directory);
// Writes what is missing.
Result<SlimReport> restore_campaign(const std::filesystem::path& directory);

}  // namespace ridge::campaign
