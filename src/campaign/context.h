// What a proposer is told before a round: the state of the campaign, its memory, the pages of knowledge about such a
// kernel, and the profile of the incumbent.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "campaign/state.h"
#include "record/campaign.h"
#include "record/iteration.h"
#include "record/profile.h"

namespace ridge::campaign {

struct Told {
  std::vector<record::Iteration> memory;  // what is not masked
  std::vector<record::KnowledgeEntry> knowledge;
  std::optional<record::ProfileReport> profile;
  double seconds_left = 0;  // of the budget; infinity: there is none
  std::vector<record::EarlierLooks> earlier = {};
};
record::ProposalRequest proposal_request(const State& state, Told told);

// The same from the folder of a campaign, as its engine would make it now, except that the engine keeps back the time
// for its report. Reads only. `data` and `knowledge`: the folders of pages, as EngineOptions has them. kConflict before
// the baseline stands and after the end.
Result<record::ProposalRequest> context_of(const std::filesystem::path& directory, const std::filesystem::path& data,
                                           const std::vector<std::filesystem::path>& knowledge);

}  // namespace ridge::campaign
