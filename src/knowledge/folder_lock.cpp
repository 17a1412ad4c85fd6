#include "knowledge/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace ridge::knowledge {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = ".lock";

// Whether the open file is the one that has this name now.
bool is_named(int file, const fs::path& path) {
  struct stat open {
  }, named{};
  return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

}  // namespace

// The writer that holds the file removes it, so one that waited may hold a file without a name, and asks again.
Result<FolderLock> FolderLock::take(const fs::path& directory) {
  const fs::path path = directory / kLockFile;
  while (true) {
    const int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (file < 0 || ::flock(file, LOCK_EX) != 0) {
      const int failure = errno;
      if (file >= 0) ::close(file);
      return with_hint(make_error(ErrorCode::kIo, "cannot lock {}: {}", directory.string(), std::strerror(failure)),
                       "free some space on its disk, or make the folder writable, and run the same command again");
    }
    if (is_named(file, path)) return FolderLock(file, path);
    ::close(file);
  }
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : file_(std::exchange(other.file_, -1)), path_(std::move(other.path_)) {}

FolderLock::~FolderLock() {
  if (file_ < 0) return;
  ::unlink(path_.c_str());
  ::close(file_);
}

Status remove_stale_lock(const fs::path& directory) {
  std::error_code missing;
  if (!fs::exists(directory / kLockFile, missing)) return ok_status();
  const Result<FolderLock> lock = FolderLock::take(directory);
  return lock ? ok_status() : Status(lock.error());
}

}  // namespace ridge::knowledge
