// Whether a campaign is about a project of its own or about an operator of Ridgeline.
//
// A project's campaign works in one of two modes. repo: copies of the project's folder as it is on the disk. workspace:
// the project's folder as of one commit of its repository, kept in the campaign, which the manifest names (upstream).
// An operator's campaign is always called workspace, and has no upstream.
#pragma once

#include "record/campaign.h"

namespace ridge::record {

inline constexpr const char* kRepoMode = "repo";
inline constexpr const char* kWorkspaceMode = "workspace";
inline constexpr const char* kUpstreamKey = "upstream";  // of the manifest: the repository that was extracted from

inline bool is_extracted(const CampaignSpec& spec) { return spec.extra.contains(kUpstreamKey); }
inline bool is_of_project(const CampaignSpec& spec) { return spec.execution_mode == kRepoMode || is_extracted(spec); }

}  // namespace ridge::record
