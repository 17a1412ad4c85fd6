// What a workspace keeps of each version beside its record in memory/: plans/v<N>_plan.md, there from the moment the
// round is proposed, versions/v<N>/ with the kernel that was tried, baseline_report.md, and a commit of all of them for
// every version, accepted or not.
#pragma once

#include <filesystem>

#include "campaign/state.h"
#include "execute/git.h"
#include "knowledge/memory.h"

namespace ridge::campaign {

// The plan of the open round, under the version that its record will have; nothing without an open round.
Status write_plan(const State& state, const knowledge::Memory& memory, const std::filesystem::path& workspace);

// Files of the versions from this campaign that the workspace lacks, and one commit of what is new in those folders.
// What a process that was killed left uncommitted is committed by the next. A workspace that is no repository keeps the
// files.
Status keep_versions(const State& state, const knowledge::Memory& memory, const std::filesystem::path& workspace,
                     execute::Git& git);

}  // namespace ridge::campaign
