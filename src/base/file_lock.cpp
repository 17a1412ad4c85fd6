#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace ridge {

Result<FileLock> FileLock::take(const std::filesystem::path& file) {
  FileLock lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  int result = lock.descriptor_ < 0 ? -1 : 0;
  if (result == 0) {
    do {
      result = ::flock(lock.descriptor_, LOCK_EX);
    } while (result != 0 && errno == EINTR);
  }
  if (result == 0) return lock;
  return with_hint(make_error(ErrorCode::kIo, "cannot lock {}: {}", file.string(), std::strerror(errno)),
                   "make its folder writable, or free some space on its disk");
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace ridge
