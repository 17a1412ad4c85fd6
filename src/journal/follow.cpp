#include "journal/follow.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/large_file.h"
#include "record/journal_prefix.h"

namespace ridge::journal {
namespace {

constexpr std::size_t kTail = 80;  // the hash of a line is its last value

struct Descriptor {
  int number;
  ~Descriptor() { ::close(number); }
};

}  // namespace

Result<Follower::Stamp> Follower::stamp() const {
  struct stat found = {};
  if (::stat(path_.c_str(), &found) != 0) {
    return make_error(errno == ENOENT || errno == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: {}",
                      path_.string(), std::strerror(errno));
  }
  return Stamp{found.st_dev, found.st_ino, static_cast<std::uint64_t>(found.st_size),
               found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec};
}

Result<std::string> Follower::bytes(std::size_t from, std::size_t to) const {
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) return make_error(ErrorCode::kIo, "{}: {}", path_.string(), std::strerror(errno));
  std::string text(to - from, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::pread(file.number, text.data() + have, text.size() - have, static_cast<off_t>(from + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return make_error(ErrorCode::kIo, "{}: {}", path_.string(), std::strerror(errno));
    if (got == 0) break;  // it was cut meanwhile: the next look sees that
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

bool Follower::continues(const Stamp& now) const {
  if (now.device != seen_.device || now.inode != seen_.inode || now.size < read_) return false;
  const Result<std::string> tail = bytes(read_ - tail_.size(), read_);
  return tail && *tail == tail_;
}

Result<Follower::Look> Follower::read(std::size_t size, const Each& each) {
  RIDGE_TRY(text, bytes(read_, size));
  const record::JournalPrefix found = record::read_prefix(text, {state_.events, state_.last_hash});
  for (const record::Event& event : found.events) {
    RIDGE_CHECK_OK(apply(state_, event));
    if (each) each(event, state_);
  }
  if (!found.problem.empty()) {
    return record::broken_journal(static_cast<std::size_t>(state_.events) + 1, read_ + found.bytes, found.problem);
  }
  if (found.bytes > 0) {
    const std::size_t kept = std::min(kTail, found.bytes);
    tail_ = text.substr(found.bytes - kept, kept);
    read_ += found.bytes;
  }
  return Look{false, static_cast<std::int64_t>(found.events.size())};
}

Result<Follower::Look> Follower::look(const Each& each) {
  RIDGE_TRY(now, stamp());
  const bool first = seen_ == Stamp{};
  if (!first && now == seen_) {
    if (failed_) return *failed_;
    return Look{};
  }
  const bool anew = !first && (failed_ || !continues(now));
  if (anew) *this = Follower(std::move(path_));
  seen_ = now;
  Result<Look> look = Error{};
  if (const Status regular = check_regular_file(path_, kJournalBytes); !regular) {
    look = regular.error();
  } else {
    look = read(now.size, each);
  }
  if (!look) {
    failed_ = in_context(path_.string(), look.error());
    return *failed_;
  }
  look->anew = anew;
  return look;
}

}  // namespace ridge::journal
