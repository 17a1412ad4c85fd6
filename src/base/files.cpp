#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/large_file.h"

namespace ridge {
namespace {

namespace fs = std::filesystem;

Error io_error(std::string_view what, const fs::path& path, int error_number) {
  Error error = make_error(ErrorCode::kIo, "cannot {} {}: {}", what, path.string(), std::strerror(error_number));
  if (error_number == ENOSPC) error.hint = "the disk is full; free some space and run the same command again";
  if (error_number == EACCES || error_number == EROFS) error.hint = "choose a directory that you may write to";
  return error;
}

class File {
 public:
  File(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// 0, or the errno of the first write that failed.
int write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

namespace {

std::string bytes_text(std::uintmax_t bytes) {
  if (bytes >= std::uintmax_t{10} << 20) return fmt::format("{} MiB", bytes >> 20);
  return bytes >= std::uintmax_t{10} << 10 ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} bytes", bytes);
}

Error too_large(const fs::path& path, std::uintmax_t bytes, std::size_t most_bytes) {
  return with_hint(invalid("{} holds {}{}, and at most {} are read", path.string(),
                           bytes > most_bytes ? "" : "more than ", bytes_text(bytes), bytes_text(most_bytes)),
                   "is it the right file?");
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

Status check_open_file(int fd, const fs::path& path, std::size_t most_bytes) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return io_error("read", path, errno);
  if (!S_ISREG(facts.st_mode)) {
    return with_hint(invalid("{} is {}, not a file", path.string(), kind_of(facts.st_mode)),
                     S_ISDIR(facts.st_mode) ? "name a file in it" : "copy its content into a file first");
  }
  const auto bytes = static_cast<std::uintmax_t>(facts.st_size);
  return bytes > most_bytes ? Status(too_large(path, bytes, most_bytes)) : ok_status();
}

// Without waiting: opening a named pipe that nothing writes to would never return.
constexpr int kReadOnly = O_RDONLY | O_NONBLOCK | O_NOCTTY;

Error cannot_open(const fs::path& path, int error_number) {
  Error error = io_error("read", path, error_number);
  if (error_number == ENOENT || error_number == ENOTDIR) error.code = ErrorCode::kNotFound;
  if (error_number == ENXIO) error = invalid("{} is a socket, not a file", path.string());
  return error;
}

}  // namespace

Status check_regular_file(const fs::path& path, std::size_t most_bytes) {
  const File file(path, kReadOnly);
  return file.open() ? check_open_file(file.fd(), path, most_bytes) : Status(cannot_open(path, errno));
}

Result<std::string> read_file(const fs::path& path) { return read_file_up_to(path, kUsualFileBytes); }

Result<std::string> read_file_up_to(const fs::path& path, std::size_t most_bytes) {
  const File file(path, kReadOnly);
  if (!file.open()) return cannot_open(path, errno);
  RIDGE_CHECK_OK(check_open_file(file.fd(), path, most_bytes));
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(file.fd(), buffer, sizeof buffer);
    if (count < 0) {
      if (errno == EINTR) continue;
      return io_error("read", path, errno);
    }
    if (count == 0) return content;
    content.append(buffer, static_cast<std::size_t>(count));
    if (content.size() > most_bytes) return too_large(path, most_bytes, most_bytes);  // it grows as it is read
  }
}

Status write_file_durably(const fs::path& path, std::string_view content) {
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  RIDGE_CHECK_OK(make_directories(directory));
  static std::atomic<std::uint64_t> writes{0};  // threads may write the same file at once
  const fs::path temporary = fmt::format("{}.tmp-{}-{}", path.string(), ::getpid(), ++writes);
  File file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.open()) return io_error("create", temporary, errno);
  int failure = write_all(file.fd(), content);
  if (failure == 0 && ::fsync(file.fd()) != 0) failure = errno;
  if (file.close() != 0 && failure == 0) failure = errno;
  if (failure == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) failure = errno;
  if (failure != 0) {
    ::unlink(temporary.c_str());
    return io_error("write", path, failure);
  }
  return sync_directory(directory);
}

Status remove_unfinished_files(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::path> unfinished;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string extension = it->path().extension().string();
    if (it->path().filename() == ".git") it.disable_recursion_pending();
    if (extension.starts_with(".tmp-") && extension.find_first_not_of("-0123456789", 5) == std::string::npos) {
      unfinished.push_back(it->path());
    }
  }
  for (const fs::path& path : unfinished) {
    if (!fs::remove(path, error) && error) return io_error("remove", path, error.value());
  }
  return ok_status();
}

Status sync_directory(const fs::path& directory) {
  const File file(directory, O_RDONLY | O_DIRECTORY);
  if (!file.open()) return io_error("open directory", directory, errno);
  if (::fsync(file.fd()) != 0) return io_error("fsync directory", directory, errno);
  return ok_status();
}

Status make_directories(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return io_error("create directory", directory, error.value());
  return ok_status();
}

Result<TempDir> TempDir::create(std::string_view prefix) {
  std::error_code error;
  const fs::path base = fs::temp_directory_path(error);
  if (error) return io_error("find", "the temporary directory", error.value());
  std::string pattern = (base / fmt::format("{}-XXXXXX", prefix)).string();
  if (::mkdtemp(pattern.data()) == nullptr) return io_error("create directory", pattern, errno);
  return TempDir(pattern);
}

TempDir::TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TempDir& TempDir::operator=(TempDir&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TempDir::~TempDir() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace ridge
