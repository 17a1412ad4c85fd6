// Which knowledge pages are about a campaign's kernel, and what became of them in it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "campaign/state.h"
#include "knowledge/pages.h"
#include "record/profile.h"

namespace ridge::campaign {

// The names that pages may know a device by: its own, its architecture as data/hardware states it ("hopper"), and x86
// for the processor that runs us. `target`: what its code is compiled for ("sm_90a"); may be empty.
std::vector<std::string> device_words(const std::filesystem::path& data, std::string_view device,
                                      std::string_view target, std::string_view backend);

// Operator, device and language of the campaign.
knowledge::Route route_of(const State& state, const std::filesystem::path& data);
// What limits the incumbent: as the profile says, where there is one that says it, or else what bounds the shape that
// is furthest from its bound.
std::string bottleneck_of(const State& state, const std::optional<record::ProfileReport>& profile);

// The entries of the campaign's pages for its proposer, at most `most`: routed, and each with the rounds that named it
// as their mechanism or among their evidence.
inline constexpr std::size_t kMostAdvice = 16;
std::vector<record::KnowledgeEntry> advice(const State& state, const std::vector<record::KnowledgeEntry>& entries,
                                           const knowledge::Route& route, std::size_t most = kMostAdvice);

}  // namespace ridge::campaign
