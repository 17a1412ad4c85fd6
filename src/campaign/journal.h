// The journal of one campaign, open for writing. Every event is one line that is fsynced before append() returns, and
// is chained to the line before it by its hash (the format and its verification are record/journal.h's).
//
// A crash can leave at most an unfinished last line; it never counted and is cut off when the journal is opened again.
// Anything else that does not verify is refused with the line and the byte offset: a campaign never guesses.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "record/journal.h"

namespace ridge::campaign {

class Anchor;

// Where lines go. An interface, so that tests can fill a disk or pull the plug.
class JournalSink {
 public:
  virtual ~JournalSink() = default;
  // Writes all of `line` at byte `offset` and makes it durable, or leaves the file as long as it was and says why not.
  virtual Status append(std::size_t offset, std::string_view line) = 0;
  // Cuts the file to `size` bytes, durably.
  virtual Status truncate(std::size_t size) = 0;
};

// The file itself: pwrite, fsync, and fsync of the directory when the file is new.
Result<std::unique_ptr<JournalSink>> open_journal_file(const std::filesystem::path& path);

class Journal {
 public:
  // Reads and verifies what is there (a missing file is an empty journal) and cuts off an unfinished last line.
  // `sink` replaces the file for writing; tests only.
  static Result<Journal> open(const std::filesystem::path& path, Clock& clock,
                              std::unique_ptr<JournalSink> sink = nullptr);

  // From here on every line is signed before it is written (anchor.h). Null: not.
  void sign_with(std::shared_ptr<Anchor> anchor) { anchor_ = std::move(anchor); }

  // Appends one event; when this returns an error nothing was added, and the journal on disk is still valid.
  Result<record::Event> append(record::EventKind kind, Json payload);

  // What was there when it was opened, handed over once; raw samples make events large.
  std::vector<record::Event> take_loaded() { return std::exchange(loaded_, {}); }
  // Bytes of an unfinished line that were cut off at opening.
  [[nodiscard]] std::size_t torn_bytes() const { return torn_bytes_; }
  [[nodiscard]] std::int64_t size() const { return next_sequence_; }
  // Seconds of active campaign time: what earlier processes used, and this one since it opened the journal.
  [[nodiscard]] double active() const;
  // Whether the file is still what this object wrote. Bytes that another process put behind it are cut off and counted:
  // they never were part of the journal. A change before that is kCorrupt. Called after programs ran that may reach the
  // file. `thorough` reads the file even when nothing seems to have touched it.
  Result<std::size_t> cut_foreign_bytes(bool thorough = false);
  // Takes seconds out of the active time: they were spent waiting for a device. Negative ones are added: the work was
  // done before this process was there.
  void discount(double seconds) { opened_at_ += seconds; }

 private:
  Journal(Clock& clock, std::unique_ptr<JournalSink> sink, std::filesystem::path path)
      : path_(std::move(path)), clock_(&clock), sink_(std::move(sink)) {}
  std::filesystem::path path_;
  std::string stamp_;  // of the file after the last append
  Clock* clock_;
  std::unique_ptr<JournalSink> sink_;
  std::shared_ptr<Anchor> anchor_;
  std::vector<record::Event> loaded_;
  std::size_t torn_bytes_ = 0;
  std::size_t file_size_ = 0;
  std::int64_t next_sequence_ = 0;
  std::string last_hash_;
  double active_before_ = 0, opened_at_ = 0;
};

// "2026-11-21T07:30:12Z"
std::string format_event_time(std::int64_t unix_time);

}  // namespace ridge::campaign
