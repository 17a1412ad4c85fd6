// The table of commands, and the texts that are generated from it.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "record/command_table.h"
#include "ridge/result.h"

namespace ridge::cli {

class Manual {
 public:
  Manual(std::string program, std::string version) : program_(std::move(program)), version_(std::move(version)) {}

  // The entry stays where it is. The first one is the program itself.
  record::CommandEntry& add(std::vector<std::string> path, const std::string& summary);

  [[nodiscard]] const std::string& program() const { return program_; }
  [[nodiscard]] const std::string& version() const { return version_; }
  [[nodiscard]] const std::deque<record::CommandEntry>& entries() const { return entries_; }
  [[nodiscard]] const record::CommandEntry& root() const { return entries_.front(); }
  [[nodiscard]] std::vector<const record::CommandEntry*> children(const record::CommandEntry& of) const;
  [[nodiscard]] std::vector<std::string> child_names(const record::CommandEntry& of) const;
  // The command of these words; the error names the words that are close.
  [[nodiscard]] Result<const record::CommandEntry*> find(const std::vector<std::string>& words) const;
  // "ridge campaign extend".
  [[nodiscard]] std::string name_of(const record::CommandEntry& entry) const;
  // The options of an entry and of everything above it, its own first.
  [[nodiscard]] std::vector<const record::CommandOption*> options_of(const record::CommandEntry& entry) const;

 private:
  std::string program_, version_;
  std::deque<record::CommandEntry> entries_;
};

// "--time-limit", and without the dashes: the name of an option in the configuration file.
std::string long_flag(const record::CommandOption& option);
std::string option_key(const record::CommandOption& option);

// "ridge bench OPERATOR [CASE...] [OPTIONS]".
std::string usage_line(const Manual& manual, const record::CommandEntry& entry);
// What --json does, in one sentence.
std::string json_sentence(const record::CommandEntry& entry);
// The help screen. Colours only headings.
std::string help_text(const Manual& manual, const record::CommandEntry& entry, std::size_t width, bool color);

// Where the configuration file and the caches are, for the manual's ENVIRONMENT section.
struct EnvironmentVariable {
  const char *name, *meaning;
};
const std::vector<EnvironmentVariable>& environment_variables();

}  // namespace ridge::cli
