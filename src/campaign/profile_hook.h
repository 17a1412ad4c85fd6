// Profiles as evidence: a report about the incumbent's build, kept in the campaign's folder, becomes findings of the
// proposer and counters that its claims about the bottleneck are held against.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "campaign/state.h"
#include "record/profile.h"

namespace ridge::campaign {

// Writes profiles/<build>.json of the incumbent and returns its path. kConflict before the baseline is measured.
Result<std::string> keep_profile(const State& state, const std::filesystem::path& directory,
                                 const record::ProfileReport& report);

// The report about the incumbent's build, if there is one; a damaged file is an error that names it.
Result<std::optional<record::ProfileReport>> profile_of_incumbent(const State& state,
                                                                  const std::filesystem::path& directory);

// Verdict and hypotheses, one sentence each with the values.
std::vector<std::string> findings_of(const record::ProfileReport& report);

}  // namespace ridge::campaign
