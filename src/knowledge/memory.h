// The iteration memory of a workspace: memory/v<N>.json, one validated record per round.
//
// A masked record is hidden from every reader until it is unmasked: a partial restart hides about half of what was
// learned, so that the next rounds look elsewhere. Writes are atomic and hold a lock; nothing that is not valid is
// written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "record/iteration.h"
#include "ridge/result.h"

namespace ridge::knowledge {

// What a record must satisfy beyond its schema: version and file agree, numbers are finite and in range, a passing gate
// has a latency, a hash looks like one, at most three open directions. Empty: valid.
std::vector<std::string> problems(const record::Iteration& iteration);

// `iteration` with fields set: "performance.latency_us=12.5", "open_directions=[]". A value is read as JSON and, where
// the field is a text, as that text; an unknown field or a wrong type is an error that names it.
Result<record::Iteration> with_fields(record::Iteration iteration, const std::vector<std::string>& assignments);

class Memory {
 public:
  // `workspace`/memory must exist; `init` makes it.
  static Result<Memory> open(const std::filesystem::path& workspace);
  static Result<Memory> init(const std::filesystem::path& workspace);

  // Versions in ascending order; masked ones only when asked for. A file that is damaged, or holds what cannot be, is
  // left out: `set_aside` names each with its reason.
  [[nodiscard]] Result<std::vector<record::Iteration>> list(bool with_masked = false) const;
  [[nodiscard]] Result<record::Iteration> read(const std::string& version, bool with_masked = false) const;
  [[nodiscard]] Result<std::vector<std::string>> set_aside() const;
  // The record with what other tools keep in its file.
  [[nodiscard]] Result<std::string> text(const std::string& version, bool with_masked = false) const;
  // "v<max over all, masked ones too, + 1>"; "v0" when there is none.
  [[nodiscard]] Result<std::string> next_version() const;

  // A new record with its timestamp; an empty version takes the next. Refuses to replace one. `original`: the text that
  // it was read from, whose other keys are kept.
  Result<record::Iteration> create(record::Iteration iteration, Clock& clock, std::string_view original = {}) const;
  Result<record::Iteration> update(const std::string& version, const std::vector<std::string>& assignments) const;
  // Refuses v0 and the best version.
  Status set_masked(const std::string& version, bool masked) const;

  // Runs `work` while no other process writes records.
  [[nodiscard]] Status locked(const std::function<Status()>& work) const;

  // Masks about half of the unmasked records, never v0, never the best, the same ones for the same seed and memory;
  // appends what it did to memory/restarts.jsonl.
  Result<record::MemoryRestart> restart(std::int64_t seed, Clock& clock) const;

  // The unmasked version with a passing gate and the least latency; empty when there is none.
  [[nodiscard]] Result<std::string> best() const;
  // Every problem of every file, masked ones too, as "v3.json: ..."
  [[nodiscard]] Result<std::vector<std::string>> validate() const;

 private:
  explicit Memory(std::filesystem::path directory) : directory_(std::move(directory)) {}
  [[nodiscard]] std::filesystem::path file(const std::string& version) const {
    return directory_ / (version + ".json");
  }
  // Holds until the record changes: the next load of it may replace what was found.
  [[nodiscard]] Result<const record::Iteration*> load(const std::string& version) const;
  [[nodiscard]] Result<std::vector<std::string>> versions() const;
  [[nodiscard]] Status store(const record::Iteration& iteration, std::string_view original = {}) const;
  // Why nothing may rest on a record; empty: it is sound.
  [[nodiscard]] std::string fault_of(const std::string& version) const;
  // Those that something may rest on, without a copy; they hold as load()'s do.
  [[nodiscard]] Result<std::vector<const record::Iteration*>> sound(bool with_masked) const;

  // Records as last read, by version. A write replaces the file, so a changed record is another inode, size or time.
  struct Cached {
    std::uint64_t inode = 0;
    std::int64_t size = 0, seconds = 0, nanoseconds = 0;
    record::Iteration iteration;
  };
  std::filesystem::path directory_;
  mutable std::map<std::string, Cached> cache_;
};

}  // namespace ridge::knowledge
