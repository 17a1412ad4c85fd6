// The commands of a manifest: what a person or another driver runs to test, time and profile the kernel of a campaign.
// The engine measures by its own worker and runs none of them.
#pragma once

#include "record/campaign.h"
#include "record/candidate.h"

namespace ridge::campaign {

// Writes test_command, benchmark_command, quick_command, profile_command, base_branch and project_skill where the
// manifest has none.
void describe_commands(record::CampaignSpec& spec, const record::Candidate& baseline);

// Which of the keys that describe_commands() writes are not there.
std::vector<std::string> missing_commands(const record::CampaignSpec& spec);

}  // namespace ridge::campaign
