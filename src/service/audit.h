// Whether the record of a campaign holds, as anyone can find out from its folder alone.
#pragma once

#include <filesystem>
#include <string>

#include "record/listing.h"
#include "ridge/result.h"

namespace ridge::service {

struct VerifyRequest {
  std::string directory;
  std::string key;  // file of the public key that must have signed every line; empty: none is asked for
};
// The journal's chain, and every file rendered again.
Result<record::Audit> verify_record(const VerifyRequest& request);

// Every decision computed again from the raw samples.
Result<record::Audit> replay_record(const std::filesystem::path& directory);

// What is missing or contradictory in the campaign of another tool.
Result<record::Audit> check_foreign_record(const std::filesystem::path& directory);

// An Ed25519 key: FILE, private, and FILE.pub; kConflict when it is there. And the public key of either file.
Result<record::KeyAnswer> new_signing_key(const std::string& file);
Result<record::KeyAnswer> show_public_key(const std::string& file);

}  // namespace ridge::service
