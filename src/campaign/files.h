// Names of the files of a campaign.
#pragma once

namespace ridge::campaign {

inline constexpr const char* kJournalFile = "journal.jsonl";
inline constexpr const char* kManifestFile = "manifest.yaml";
inline constexpr const char* kConfirmedFile = "manifest.confirmed";
inline constexpr const char* kStopFile = "stop";

}  // namespace ridge::campaign
