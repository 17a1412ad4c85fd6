// What a campaign leaves in the iteration memory: one record per closed round, filled from the journal alone, so that
// only the tools' account of a round stands in it.
//
// A campaign keeps its memory in its own folder, or, when it was started from a workspace, in that workspace, which
// several campaigns share. A record knows its round by a reference (campaign id, "round 3"), since its version counts
// all records of the memory.
//
// Masking: a round whose record is masked does not exist for what asks for the next hypothesis. The engine writes the
// set of masked rounds into the journal before it asks, so that the journal alone says what a proposer could know.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "campaign/render.h"
#include "campaign/state.h"
#include "knowledge/memory.h"
#include "record/iteration.h"

namespace ridge::campaign {

// Key of CampaignSpec::extra that names the workspace, relative to the campaign's folder or absolute.
inline constexpr const char* kWorkspaceKey = "workspace";

// Whose memory/ the campaign reads and writes.
std::filesystem::path memory_root(const State& state, const std::filesystem::path& directory);

// The record of the baseline, and of a closed round; no version yet.
record::Iteration iteration_of_baseline(const State& state);
record::Iteration iteration_of(const State& state, const Round& round);
// The same as versions before rendering 2 (record::kRendering) gave it: a round without a verdict was a failure.
record::Iteration first_rendering_of(const State& state, const Round& round);
// A record that an earlier version wrote of a round that was not measured or not settled, which calls that a failure:
// it gets the state that it would have now.
void give_own_state(record::Iteration& iteration);

// The round of `campaign` that a record is about; 0: none.
std::int64_t round_of(const record::Iteration& iteration, const std::string& campaign);

// Adds the records of the closed rounds from the one with index `first_round` on. From 0 on the memory is looked
// through first, and only what it lacks is added: what a process that was killed had written already is not written
// again.
Status remember(const State& state, const knowledge::Memory& memory, std::size_t first_round, Clock& clock);

// What the memory shows to a proposer, and which rounds of this campaign it hides. Of many records the first, the
// best and the newest are shown.
inline constexpr std::size_t kMostRecalled = 24;
struct Recalled {
  std::vector<record::Iteration> visible;
  record::Masked masked;
};
Result<Recalled> recall(const State& state, const knowledge::Memory& memory);

// Files of the campaign's own memory as remember() writes them into a new one; none for a memory in a workspace.
FileMap render_memory(const State& state);

// A file of the campaign's own memory that is missing or does not say what the journal says, masks aside:
// "memory/v3.json" and why. Of a campaign that an earlier version began, what that version said counts, too. `checked`
// counts the records looked at. A workspace's memory is not the campaign's to judge.
struct ForgedRecord {
  std::string path, why;
};
std::vector<ForgedRecord> forged_memory(const State& state, const std::filesystem::path& directory,
                                        std::int64_t& checked);

}  // namespace ridge::campaign
