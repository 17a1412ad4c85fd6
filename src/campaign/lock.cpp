#include "campaign/lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/files.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = "lock";

std::string boot_id() {
  Result<std::string> text = read_file("/proc/sys/kernel/random/boot_id");
  return text ? text->substr(0, text->find('\n')) : std::string("unknown");
}

// Field 22 of /proc/PID/stat; the program name before it may hold spaces and parentheses, so count from the last ')'.
std::string start_time_of(long pid) {
  Result<std::string> text = read_file(fmt::format("/proc/{}/stat", pid));
  if (!text) return {};
  const std::size_t after_name = text->rfind(')');
  if (after_name == std::string::npos) return {};
  std::istringstream fields(text->substr(after_name + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field;
}

LockHolder parse_holder(const std::string& text) {
  LockHolder holder;
  std::istringstream words(text);
  words >> holder.pid >> holder.boot_id >> holder.start_time;
  return holder;
}

// A child that a killed holder had just forked keeps the descriptor until it executes its program; `patient` waits for
// that, at most two seconds.
bool lock_file(int fd, bool patient) {
  for (int tries = patient ? 100 : 1; tries > 0; --tries) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (tries > 1) ::usleep(20'000);
  }
  return false;
}

Error held_by(const fs::path& directory, const LockHolder& holder) {
  const std::string who = holder.pid > 0 ? fmt::format("process {}", holder.pid) : std::string("another process");
  return with_hint(make_error(ErrorCode::kConflict, "{} is working on the campaign {}", who, directory.string()),
                   fmt::format("wait for it, watch it with `ridge campaign status {0}`, or end it with `ridge campaign "
                               "stop {0}`",
                               directory.string()));
}

}  // namespace

LockHolder current_process() {
  const long pid = ::getpid();
  return {pid, boot_id(), start_time_of(pid)};
}

bool is_alive(const LockHolder& holder) {
  if (holder.pid <= 0 || holder.boot_id != boot_id()) return false;
  if (::kill(static_cast<pid_t>(holder.pid), 0) != 0 && errno != EPERM) return false;
  const std::string start_time = start_time_of(holder.pid);
  return start_time.empty() || start_time == holder.start_time;
}

Result<CampaignLock> CampaignLock::acquire(const fs::path& directory) {
  RIDGE_CHECK_OK(make_directories(directory));
  const fs::path path = directory / kLockFile;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return with_hint(make_error(ErrorCode::kIo, "cannot open {}: {}", path.string(), std::strerror(errno)),
                     "choose a directory that you may write to");
  }
  CampaignLock lock(path, fd);
  // flock settles races between starters on this machine; the content settles the rest (another machine's view of a
  // shared file system, a holder that lost its descriptor).
  const Result<std::string> text = read_file(path);
  const LockHolder holder = parse_holder(text ? *text : std::string());
  const bool locked = lock_file(fd, !is_alive(holder));
  const LockHolder self = current_process();
  if (!locked || (is_alive(holder) && holder != self)) {
    ::close(std::exchange(lock.fd_, -1));  // leave the file: it is not ours
    return held_by(directory, holder);
  }
  const std::string content = fmt::format("{} {} {}\n", self.pid, self.boot_id, self.start_time);
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, content.data(), content.size(), 0) < 0 || ::fsync(fd) != 0) {
    return with_hint(make_error(ErrorCode::kIo, "cannot write {}: {}", path.string(), std::strerror(errno)),
                     "free some space on that disk, or make the file writable, and run the same command again");
  }
  return lock;
}

CampaignLock::CampaignLock(CampaignLock&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

CampaignLock::~CampaignLock() {
  if (fd_ < 0) return;
  // Emptied, not removed: removing a locked file would let two starters lock two different files of one name.
  (void)!::ftruncate(fd_, 0);
  ::close(fd_);
}

LockHolder lock_holder(const fs::path& directory) {
  const Result<std::string> text = read_file(directory / kLockFile);
  const LockHolder holder = parse_holder(text ? *text : std::string());
  return is_alive(holder) ? holder : LockHolder{};
}

}  // namespace ridge::campaign
