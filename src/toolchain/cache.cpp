#include "toolchain/cache.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "record/json.h"

namespace ridge::toolchain {
namespace {
constexpr const char* kEvidenceName = "evidence.json";
}

std::filesystem::path ArtifactCache::folder(const std::string& key) const {
  return directory_ / "artifacts" / key.substr(0, 2) / key;
}

std::optional<ArtifactCache::Entry> ArtifactCache::find(const std::string& key) const {
  const std::filesystem::path entry = folder(key);
  const Result<std::string> text = read_file(entry / kEvidenceName);
  if (!text) return std::nullopt;
  auto evidence = record::parse_record<record::BuildEvidence>(*text, "evidence");
  const Result<std::string> digest = sha256_file(entry / name_);
  if (evidence && digest && *digest == evidence->artifact) return Entry{entry / name_, std::move(*evidence)};
  std::error_code ignored;
  std::filesystem::remove_all(entry, ignored);
  return std::nullopt;
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
  RIDGE_CHECK_OK(write_file_durably(scratch / kEvidenceName, record::to_line(evidence)));
  const std::filesystem::path entry = folder(key);
  RIDGE_CHECK_OK(make_directories(entry.parent_path()));
  std::error_code failure;
  // mkdtemp makes it private; the sandboxed host runs as another user and must read the artefact.
  std::filesystem::permissions(scratch, std::filesystem::perms(0755), failure);
  std::filesystem::rename(scratch, entry, failure);
  if (failure) {
    std::error_code ignored;
    std::filesystem::remove_all(scratch, ignored);
    if (std::optional<Entry> theirs = find(key)) return std::move(*theirs);
    return make_error(ErrorCode::kIo, "cannot move an artefact to {}: {}", entry.string(), failure.message());
  }
  return Entry{entry / name_, evidence};
}

}  // namespace ridge::toolchain
