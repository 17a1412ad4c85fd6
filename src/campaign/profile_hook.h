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

// The fact of the environment that names the campaign's profiler; one that begins with "none" says why there is none.
// Campaigns of before the engine profiled lack it.
inline constexpr const char* kProfilerFact = "profiler";
inline constexpr const char* kNoProfiler = "none";

// Why the incumbent is to be profiled now: baseline, rollbacks or end. Empty: it is not, also where no profiler is
// known, and where its build was looked at already.
std::string profile_trigger(const State& state);

// The report about the incumbent's build that a person gave, or else the engine's own; a damaged file is an error that
// names it.
Result<std::optional<record::ProfileReport>> profile_of_incumbent(const State& state,
                                                                  const std::filesystem::path& directory);

// Verdict and hypotheses, one sentence each with the values.
std::vector<std::string> findings_of(const record::ProfileReport& report);

}  // namespace ridge::campaign
