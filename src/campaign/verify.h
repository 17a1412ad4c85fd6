// Proof that a campaign's record was not touched. verify: the chain of the journal, its story, every rendered file,
// every snapshot and the report; of a campaign that has ended, what is not in the folder is rendered and is no offence.
// replay: every decision and the final figures computed again from the raw samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "record/journal.h"
#include "ridge/result.h"

namespace ridge::campaign {

struct FileFinding {
  enum class Kind {
    kStale,     // what it was at an earlier event: the campaign was killed before it was written again
    kEarlier,   // this version renders it otherwise than the one that the campaign began with
    kForged,    // was never rendered like this
    kMissing,   // and what the journal gives is not what it says that was written
    kSnapshot,  // a stored object does not match its name
    kSamples    // a line of the journal holds samples that no measurement gives
  };
  std::string path;
  Kind kind = Kind::kForged;
  std::string detail;  // the first line that differs
};

// Stale files, and those of an earlier rendering, are none: resuming writes them again. A report is one until it is
// written again, because no digest of it is kept.
bool is_offence(const FileFinding& finding);

struct VerifyReport {
  std::int64_t events = 0, files = 0, snapshots = 0;
  std::int64_t rendered = 0;  // of the files those that are not in the folder
  // Of a campaign that began with an earlier rendering: files that the journal has other digests of than this version
  // renders. Those in the folder have that digest.
  std::int64_t otherwise = 0;
  std::string last_hash;  // once it is published, any change to the campaign shows
  std::size_t torn_bytes = 0;
  std::int64_t sessions = 0, unstamped = 0;  // measured, and of those without the stamps of this version
  std::vector<FileFinding> findings;
  // No finding is an offence.
  [[nodiscard]] bool ok() const;
  [[nodiscard]] std::string text() const;
};
// An error when the journal itself is broken, with line and byte offset.
Result<VerifyReport> verify_campaign(const std::filesystem::path& directory);

struct ReplayReport {
  std::int64_t decisions = 0;
  std::vector<std::string> differences;  // "round 3: accepted is true, recomputed false: ..."
  [[nodiscard]] bool ok() const { return differences.empty(); }
};
Result<ReplayReport> replay_events(std::span<const record::Event> events);
Result<ReplayReport> replay_campaign(const std::filesystem::path& directory);

}  // namespace ridge::campaign
