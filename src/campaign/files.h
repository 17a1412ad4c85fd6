// Names of the files of a campaign.
#pragma once

namespace ridge::campaign {

inline constexpr const char* kJournalFile = "journal.jsonl";
inline constexpr const char* kManifestFile = "manifest.yaml";
inline constexpr const char* kConfirmedFile = "manifest.confirmed";
// Wishes of the user, honoured before the next measurement begins and removed then.
inline constexpr const char* kStopFile = "stop";
inline constexpr const char* kPauseFile = "pause";
inline constexpr const char* kStopAfterFile = "stop-after";  // holds a number of rounds

}  // namespace ridge::campaign
