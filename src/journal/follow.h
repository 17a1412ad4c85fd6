// Follows a journal that another process writes: each look reads and verifies the lines behind the last one, so that a
// new event costs as much in a long journal as in a short one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "journal/fold.h"
#include "record/journal.h"

namespace ridge::journal {

class Follower {
 public:
  explicit Follower(std::filesystem::path path) : path_(std::move(path)) {}

  struct Look {
    bool anew = false;  // the journal is not a continuation of what was read (restored, repaired): all of it came again
    std::int64_t events = 0;  // that came
  };
  using Each = std::function<void(const record::Event& event, const State& after)>;
  // Reads the events since the last look; `each` gets them in their order. An unfinished last line is what the other
  // process is writing: a later look has it. Lines that were read are not read again, but the end of the last one: an
  // edit before it is found by `verify`, not here. Errors: kNotFound; kCorrupt, with the line and the byte, and again
  // by each look until the file changes.
  Result<Look> look(const Each& each = {});

  // Of the file at the last look: its bytes, and those behind its last whole line.
  [[nodiscard]] std::uint64_t size() const { return seen_.size; }
  [[nodiscard]] std::uint64_t torn_bytes() const { return seen_.size - read_; }

  // What the events so far add up to.
  [[nodiscard]] const State& state() const { return state_; }

 private:
  struct Stamp {
    std::uint64_t device = 0, inode = 0, size = 0;
    std::int64_t changed = 0;  // nanoseconds
    bool operator==(const Stamp&) const = default;
  };
  [[nodiscard]] Result<Stamp> stamp() const;
  [[nodiscard]] Result<std::string> bytes(std::size_t from, std::size_t to) const;
  [[nodiscard]] bool continues(const Stamp& now) const;
  Result<Look> read(std::size_t size, const Each& each);

  std::filesystem::path path_;
  State state_;
  Stamp seen_;
  std::size_t read_ = 0;  // bytes of whole lines
  std::string tail_;      // the last of them
  std::optional<Error> failed_;
};

}  // namespace ridge::journal
