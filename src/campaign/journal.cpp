#include "campaign/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "base/files.h"
#include "base/large_file.h"
#include "campaign/anchor.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

Error journal_error(std::string_view what, const fs::path& path, int error_number) {
  Error error =
      make_error(ErrorCode::kIo, "cannot {} the journal {}: {}", what, path.string(), std::strerror(error_number));
  error.hint = error_number == ENOSPC || error_number == EDQUOT
                   ? "the disk is full; nothing was lost: free some space and resume the campaign"
                   : "nothing was lost: make the file writable and resume the campaign";
  return error;
}

// Size and time of the last change of a file; the latter cannot be set back by a program. Empty when it is not there.
std::string stamp_of(const fs::path& path) {
  struct stat now {};
  if (::stat(path.c_str(), &now) != 0) return {};
  return fmt::format("{} {} {}.{}", now.st_ino, now.st_size, now.st_ctim.tv_sec, now.st_ctim.tv_nsec);
}

class JournalFile final : public JournalSink {
 public:
  JournalFile(fs::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;
  ~JournalFile() override { ::close(fd_); }

  Status append(std::size_t offset, std::string_view line) override {
    std::size_t done = 0;
    int failure = 0;
    while (done < line.size() && failure == 0) {
      const ssize_t count = ::pwrite(fd_, line.data() + done, line.size() - done, static_cast<off_t>(offset + done));
      if (count >= 0) {
        done += static_cast<std::size_t>(count);
      } else if (errno != EINTR) {
        failure = errno;
      }
    }
    if (failure == 0 && ::fsync(fd_) != 0) failure = errno;
    if (failure == 0) return ok_status();
    // Takes a half-written line back; if even that fails, the next opening cuts it off.
    if (::ftruncate(fd_, static_cast<off_t>(offset)) == 0) (void)::fsync(fd_);
    return journal_error("write", path_, failure);
  }

  Status truncate(std::size_t size) override {
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0 || ::fsync(fd_) != 0) {
      return journal_error("shorten", path_, errno);
    }
    return ok_status();
  }

 private:
  fs::path path_;
  int fd_;
};

// A line that the reader of the journal would refuse is not written.
Status check_size(record::EventKind kind, std::string_view line, std::size_t file_size) {
  if (line.size() - 1 > kUsualFileBytes) {
    return with_hint(
        invalid("the event \"{}\" has {} bytes, and a line of the journal has at most {}", record::name_of(kind),
                line.size() - 1, kUsualFileBytes),
        "the journal is as it was; fewer samples, or less output of the project's commands, make it shorter");
  }
  if (file_size + line.size() > kJournalBytes) {
    return with_hint(invalid("with the event \"{}\" the journal would have {} bytes, and it has at most {}",
                             record::name_of(kind), file_size + line.size(), kJournalBytes),
                     "the journal is as it was; end the campaign with `ridge campaign report` and begin another");
  }
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<JournalSink>> open_journal_file(const fs::path& path) {
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  RIDGE_CHECK_OK(make_directories(directory));
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return journal_error("open", path, errno);
  std::unique_ptr<JournalSink> file = std::make_unique<JournalFile>(path, fd);
  RIDGE_CHECK_OK(sync_directory(directory));
  return file;
}

std::string format_event_time(std::int64_t unix_time) {
  const std::time_t time = unix_time;
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Result<Journal> Journal::open(const fs::path& path, Clock& clock, std::unique_ptr<JournalSink> sink) {
  std::string text;
  if (Result<std::string> read = read_file_up_to(path, kJournalBytes)) {
    text = std::move(*read);
  } else if (read.error().code != ErrorCode::kNotFound) {
    return read.error();
  }
  Result<record::JournalText> parsed = record::parse_journal(text);
  if (!parsed) return in_context(path.string(), parsed.error());
  if (sink == nullptr) {
    RIDGE_TRY(file, open_journal_file(path));
    sink = std::move(file);
  }
  Journal journal(clock, std::move(sink), path);
  journal.loaded_ = std::move(parsed->events);
  journal.torn_bytes_ = parsed->torn_bytes;
  journal.file_size_ = text.size() - parsed->torn_bytes;
  if (parsed->torn_bytes > 0) RIDGE_CHECK_OK(journal.sink_->truncate(journal.file_size_));
  journal.next_sequence_ = static_cast<std::int64_t>(journal.loaded_.size());
  journal.last_hash_ = journal.loaded_.empty() ? std::string(64, '0') : journal.loaded_.back().hash;
  journal.active_before_ = journal.loaded_.empty() ? 0.0 : journal.loaded_.back().active;
  journal.opened_at_ = clock.monotonic();
  return journal;
}

Result<std::size_t> Journal::cut_foreign_bytes(bool thorough) {
  const std::string stamp = stamp_of(path_);
  if (!thorough && !stamp.empty() && stamp == stamp_) return std::size_t{0};
  RIDGE_TRY(text, read_file_up_to(path_, kJournalBytes));
  const Result<record::JournalText> own = record::parse_journal(std::string_view(text).substr(0, file_size_));
  const bool intact = text.size() >= file_size_ && own && own->torn_bytes == 0 && !own->events.empty() &&
                      own->events.back().hash == last_hash_;
  if (!intact) {
    return with_hint(
        make_error(ErrorCode::kCorrupt, "{} was changed by another process while the campaign ran", path_.string()),
        "restore it from a copy; nothing that was written there by others counts");
  }
  const std::size_t foreign = text.size() - file_size_;
  if (foreign > 0) RIDGE_CHECK_OK(sink_->truncate(file_size_));
  stamp_ = stamp_of(path_);
  return foreign;
}

double Journal::active() const { return active_before_ + (clock_->monotonic() - opened_at_); }

Result<record::Event> Journal::append(record::EventKind kind, Json payload) {
  record::Event event;
  event.sequence = next_sequence_;
  event.time = format_event_time(clock_->unix_time());
  event.active = active();
  event.kind = kind;
  event.payload = std::move(payload);
  make_utf8(event.payload);
  event.previous = last_hash_;
  event.hash = record::event_hash(event);
  const std::string line = record::to_line(event) + "\n";
  RIDGE_CHECK_OK(check_size(kind, line, file_size_));
  if (anchor_ != nullptr) RIDGE_CHECK_OK(anchor_->sign(event.sequence, event.hash));
  RIDGE_CHECK_OK(sink_->append(file_size_, line));
  file_size_ += line.size();
  last_hash_ = event.hash;
  stamp_ = stamp_of(path_);
  ++next_sequence_;
  return event;
}

}  // namespace ridge::campaign
