#include "execute/folder_seal.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/hash.h"

namespace ridge::execute {
namespace {
namespace fs = std::filesystem;
}

bool FolderSeal::Known::same_inode(const Known& other) const {
  return link == other.link && inode == other.inode && bytes == other.bytes && seconds == other.seconds &&
         nanoseconds == other.nanoseconds;
}

Result<FolderSeal::Known> FolderSeal::look(const fs::path& path, bool with_digest) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    return make_error(ErrorCode::kNotFound, "cannot look at {}: {}", path.string(), std::strerror(errno));
  }
  Known known;
  known.link = S_ISLNK(status.st_mode);
  known.inode = status.st_ino;
  known.bytes = status.st_size;
  known.seconds = status.st_ctim.tv_sec;
  known.nanoseconds = status.st_ctim.tv_nsec;
  if (!with_digest) return known;
  if (known.link) {
    std::error_code failure;
    known.digest = fs::read_symlink(path, failure).string();
    return known;
  }
  if (!S_ISREG(status.st_mode)) return make_error(ErrorCode::kInvalidArgument, "{} is no file", path.string());
  RIDGE_TRY(digest, sha256_file(path));
  known.digest = std::move(digest);
  return known;
}

bool FolderSeal::ignored(const std::string& relative) const {
  return std::any_of(writes_.begin(), writes_.end(), [&](const std::string& one) {
    return relative == one ||
           (relative.starts_with(one) && relative.size() > one.size() && relative[one.size()] == '/');
  });
}

Result<std::vector<std::string>> FolderSeal::list() const {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::recursive_directory_iterator it(root_, error), end; !error && it != end; it.increment(error)) {
    const std::string relative = it->path().lexically_relative(root_).string();
    std::error_code gone;
    const bool folder = fs::is_directory(it->symlink_status(gone));
    if (ignored(relative)) {
      if (folder) it.disable_recursion_pending();
    } else if (!folder) {
      found.push_back(relative);
    }
  }
  if (error) return make_error(ErrorCode::kIo, "cannot look through {}: {}", root_.string(), error.message());
  return found;
}

Result<FolderSeal> FolderSeal::take(fs::path root, std::vector<std::string> writes) {
  FolderSeal seal;
  seal.root_ = std::move(root);
  seal.writes_ = std::move(writes);
  RIDGE_TRY(names, seal.list());
  for (const std::string& name : names) {
    RIDGE_TRY(known, look(seal.root_ / name, true));
    seal.files_[name] = std::move(known);
  }
  return seal;
}

Result<std::vector<std::string>> FolderSeal::changed() const {
  std::vector<std::string> names;
  for (const auto& [name, known] : files_) {
    const Result<Known> now = look(root_ / name, false);
    if (now && now->same_inode(known)) continue;
    const Result<Known> read = now ? look(root_ / name, true) : now;
    if (!read || read->link != known.link || read->digest != known.digest) names.push_back(name);
  }
  return names;
}

Result<std::string> FolderSeal::broken() {
  RIDGE_TRY(names, changed());
  if (!names.empty()) return names.front();
  RIDGE_TRY(added_names, added());
  RIDGE_CHECK_OK(remove(added_names));
  return std::string();
}

Result<std::vector<std::string>> FolderSeal::added() const {
  RIDGE_TRY(names, list());
  std::erase_if(names, [&](const std::string& name) { return files_.contains(name); });
  return names;
}

Status FolderSeal::remove(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    std::error_code failure;
    fs::remove(root_ / name, failure);
    if (failure) return make_error(ErrorCode::kIo, "cannot remove {}: {}", (root_ / name).string(), failure.message());
  }
  return ok_status();
}

}  // namespace ridge::execute
