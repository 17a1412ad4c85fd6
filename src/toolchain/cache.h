// The content-addressed store of artefacts: <directory>/artifacts/<first two digits>/<key>/{kernel.so, evidence.json,
// tag}, or kernel.cubin for device code.
//
// An entry counts only with our tag: HMAC-SHA256 over its key, its artefact and its evidence, with the key of this
// installation (base/installation_key.h). What another program put there, or changed there, is removed and built again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "record/measurement.h"
#include "ridge/result.h"

namespace ridge::toolchain {

inline constexpr const char* kArtifactName = "kernel.so";
inline constexpr const char* kCubinName = "kernel.cubin";

// The count in BuildEvidence::counts of entries that were there and not believed.
inline constexpr const char* kRefusedEntries = "cache_entries_refused";

class ArtifactCache {
 public:
  // `authenticated` is switched off by tests only, to show what then slips through.
  explicit ArtifactCache(std::filesystem::path directory, std::string artifact_name = kArtifactName,
                         bool authenticated = true);

  struct Entry {
    std::filesystem::path artifact;
    record::BuildEvidence evidence;
    std::string bytes;  // of the artefact, as they were verified
  };
  struct Found {
    std::optional<Entry> entry;
    std::string refused;  // why an entry that is there does not count; it is gone
  };
  [[nodiscard]] Found find(const std::string& key) const;

  // Why nothing is kept and nothing is believed here: there is no key. Empty: there is one.
  [[nodiscard]] const std::string& without_key() const { return without_key_; }

  // A fresh private directory on the same file system, to build in.
  [[nodiscard]] Result<std::filesystem::path> scratch() const;

  // Moves a finished directory (the artefact inside) into place with one rename. When another process was faster its
  // entry stands and ours is dropped; both are the same by construction.
  [[nodiscard]] Result<Entry> commit(const std::string& key, const std::filesystem::path& scratch,
                                     const record::BuildEvidence& evidence) const;

 private:
  [[nodiscard]] std::filesystem::path folder(const std::string& key) const;
  [[nodiscard]] std::string tag_of(const std::string& key, const std::string& artifact_digest,
                                   const std::string& evidence) const;
  std::filesystem::path directory_;
  std::string name_;
  std::string secret_, without_key_;
  bool authenticated_;
};

// Says in the evidence of a fresh build that an entry of the cache was there and not believed, or that none can be.
void note_refusal(const std::string& refused, const std::string& without_key, record::BuildEvidence& evidence);

}  // namespace ridge::toolchain
