// A campaign that is anchored: a key that lies outside of its folder signs every line of its journal before the line is
// written. The hash chain shows that a journal is consistent with itself; the signatures show who wrote it.
//
// The manifest names the public key (`signing_key`), so the journal's first line does, and a campaign that began with a
// key cannot go on without it. The signatures stand in signatures.jsonl, appended and fsynced; docs/campaigns.md says
// what they prove and what they do not.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "record/journal.h"
#include "ridge/result.h"

namespace ridge::campaign {

inline constexpr const char* kSignaturesFile = "signatures.jsonl";
inline constexpr const char* kTimestampsFile = "timestamps.jsonl";
// Keys of the manifest.
inline constexpr const char* kSigningKey = "signing_key";
inline constexpr const char* kTimestampCommand = "timestamp_command";
// Names the file of the private key where no flag does.
inline constexpr const char* kSignKeyVariable = "RIDGE_SIGN_KEY";

// The file that was given, else the one that RIDGE_SIGN_KEY names; empty: none.
std::filesystem::path sign_key_file(const std::filesystem::path& given);

// "ed25519-<64 hex digits>", as a manifest and every message write a public key.
std::string key_text(const std::string& public_key);
// The public key that a manifest names; none when it names none. An error when it is no key.
Result<std::optional<std::string>> signing_key_of(const record::CampaignSpec& spec);
// The command that stamps heads; empty: none.
std::string timestamp_command_of(const record::CampaignSpec& spec);
// Writes both into a manifest that is not confirmed yet. The key is read, and must lie outside of `directory`.
Status anchor_spec(record::CampaignSpec& spec, const std::filesystem::path& directory,
                   const std::filesystem::path& key_file, const std::string& timestamp_command);

// Signs lines for one process.
class Anchor {
 public:
  virtual ~Anchor() = default;
  virtual Status sign(std::int64_t sequence, const std::string& hash) = 0;

  // Null where the manifest names no key. The private key is that of `key_file`, else of RIDGE_SIGN_KEY, else of the
  // file that the last signatures came from. Refused: another key; a journal with a line that the key has not signed.
  static Result<std::unique_ptr<Anchor>> open(const std::filesystem::path& directory, const record::CampaignSpec& spec,
                                              const std::vector<record::Event>& events,
                                              const std::filesystem::path& key_file);
};

struct SignatureReport {
  std::string key;          // that was asked for
  std::int64_t events = 0;  // of the journal
  std::int64_t signed_events = 0;
  std::int64_t first_bad = 0;  // line of the journal, from 1; 0: none
  std::string problem;         // of that line
  std::int64_t unused = 0;     // signatures of lines that are not in the journal: a crash between the two
  std::size_t torn_bytes = 0;
  [[nodiscard]] bool ok() const { return first_bad == 0; }
};
// Whether every line of a journal is signed by that key. An error only when signatures.jsonl cannot be read.
Result<SignatureReport> check_signatures(const std::filesystem::path& directory,
                                         const std::vector<record::Event>& events, const std::string& public_key);

struct TimestampReport {
  std::int64_t kept = 0, failed = 0;
  std::vector<std::string> problems;  // stamps of heads that the journal does not have
};
Result<TimestampReport> check_timestamps(const std::filesystem::path& directory,
                                         const std::vector<record::Event>& events);

// Asks the command for a stamp of this head and keeps what it said, or why it said nothing: a campaign does not end
// because a server is away. An error only when that cannot be written.
Status stamp_head(const std::filesystem::path& directory, const std::string& command, const record::Event& head,
                  Clock& clock);
// Whether a head of this kind is worth a stamp: the end of a measurement, a decision, a stop.
bool is_stamped(record::EventKind kind);

}  // namespace ridge::campaign
