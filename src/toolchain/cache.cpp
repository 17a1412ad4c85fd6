#include "toolchain/cache.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/installation_key.h"
#include "record/json.h"

namespace ridge::toolchain {
namespace {
constexpr const char* kEvidenceName = "evidence.json";
constexpr const char* kTagName = "tag";
}  // namespace

ArtifactCache::ArtifactCache(std::filesystem::path directory, std::string artifact_name, bool authenticated)
    : directory_(std::move(directory)), name_(std::move(artifact_name)), authenticated_(authenticated) {
  Result<std::string> key = installation_key();
  if (key) {
    secret_ = std::move(*key);
  } else {
    without_key_ = key.error().text();
  }
}

std::filesystem::path ArtifactCache::folder(const std::string& key) const {
  return directory_ / "artifacts" / key.substr(0, 2) / key;
}

std::string ArtifactCache::tag_of(const std::string& key, const std::string& artifact_digest,
                                  const std::string& evidence) const {
  return hmac_sha256(secret_,
                     fmt::format("ridge artefact 1\n{}\n{}\n{}\n{}\n", key, name_, artifact_digest, sha256(evidence)));
}

ArtifactCache::Found ArtifactCache::find(const std::string& key) const {
  Found found;
  const std::filesystem::path entry = folder(key);
  std::error_code ignored;
  if (!std::filesystem::exists(entry, ignored)) return found;
  Result<std::string> bytes = read_file(entry / name_), text = read_file(entry / kEvidenceName);
  const Result<std::string> tag = read_file(entry / kTagName);
  const std::string digest = bytes ? sha256(*bytes) : std::string();
  auto evidence = record::parse_record<record::BuildEvidence>(text ? *text : std::string(), "evidence");
  if (!bytes || !evidence) {
    found.refused = "it is not complete";
  } else if (digest != evidence->artifact) {
    found.refused = fmt::format("its object is {} and not the {} that lies beside it", digest.substr(0, 12),
                                evidence->artifact.substr(0, 12));
  } else if (authenticated_ && !without_key_.empty()) {
    found.refused = "there is no key to verify it with: " + without_key_;
  } else if (authenticated_ && !tag) {
    found.refused = "it has no tag of this installation";
  } else if (authenticated_ && !same_tag(*tag, tag_of(key, digest, *text))) {
    found.refused = "its tag is not of this installation's key: another program made or changed it";
  }
  if (found.refused.empty()) {
    found.entry = Entry{entry / name_, std::move(*evidence), std::move(*bytes)};
    return found;
  }
  found.refused =
      fmt::format("the cached object {} does not count: {}; it was built again", key.substr(0, 12), found.refused);
  std::filesystem::remove_all(entry, ignored);
  return found;
}

Result<std::filesystem::path> ArtifactCache::scratch() const {
  const std::filesystem::path parent = directory_ / "building";
  RIDGE_CHECK_OK(make_directories(parent));
  std::string name = (parent / "XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    return make_error(ErrorCode::kIo, "cannot create a directory in {}: {}", parent.string(), std::strerror(errno));
  }
  return std::filesystem::path(name);
}

Result<ArtifactCache::Entry> ArtifactCache::commit(const std::string& key, const std::filesystem::path& scratch,
                                                   const record::BuildEvidence& evidence) const {
  RIDGE_TRY(bytes, read_file(scratch / name_));
  if (const std::string digest = sha256(bytes); digest != evidence.artifact) {
    return make_error(ErrorCode::kCorrupt, "{} changed while it was kept: it was {} and is {}",
                      (scratch / name_).string(), evidence.artifact, digest);
  }
  const std::string text = record::to_line(evidence);
  RIDGE_CHECK_OK(write_file_durably(scratch / kEvidenceName, text));
  RIDGE_CHECK_OK(write_file_durably(scratch / kTagName, tag_of(key, evidence.artifact, text)));
  const std::filesystem::path entry = folder(key);
  RIDGE_CHECK_OK(make_directories(entry.parent_path()));
  std::error_code failure;
  // mkdtemp makes it private; the sandboxed host runs as another user and must read the artefact.
  std::filesystem::permissions(scratch, std::filesystem::perms(0755), failure);
  std::filesystem::rename(scratch, entry, failure);
  if (failure) {
    std::error_code ignored;
    std::filesystem::remove_all(scratch, ignored);
    if (Found theirs = find(key); theirs.entry) return std::move(*theirs.entry);
    return make_error(ErrorCode::kIo, "cannot move an artefact to {}: {}", entry.string(), failure.message());
  }
  return Entry{entry / name_, evidence, std::move(bytes)};
}

void note_refusal(const std::string& refused, const std::string& without_key, record::BuildEvidence& evidence) {
  if (!refused.empty()) {
    evidence.counts[kRefusedEntries] += 1;
    evidence.log = refused + "\n" + evidence.log;
  } else if (!without_key.empty()) {
    evidence.log = "nothing is cached: " + without_key + "\n" + evidence.log;
  }
}

}  // namespace ridge::toolchain
