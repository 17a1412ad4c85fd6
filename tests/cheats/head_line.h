// The first line of a candidate of a corpus, which says what must become of it:
//
//   // ridge-cheat: key=value key=value word ...
//   // ridge-honest: ...
//
// The keys are the corpus's own (corpus.h, cuda/items.h). What cannot be read ends the program with the file and the
// word.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "record/measurement.h"

namespace ridge::cheats {

struct HeadLine {
  std::string text;  // the whole file
  bool honest = false;
  std::vector<std::pair<std::string, std::string>> words;  // a word without "=" has an empty value
};

HeadLine read_head_line(const std::filesystem::path& file);

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why);
std::string text_of(const std::filesystem::path& file);
// The parts that are not empty.
std::vector<std::string> words_of(const std::string& text, char at);
record::Defence gate_of(const std::filesystem::path& file, const std::string& name);
record::Outcome outcome_of(const std::filesystem::path& file, const std::string& name);
// "m=3,layout=nt" set in `problem`.
void set_params(const std::string& list, record::Case& problem);
// Candidates with that extension in the folders, by name.
std::vector<std::filesystem::path> candidates_in(const std::vector<std::filesystem::path>& folders,
                                                 const std::string& extension);

}  // namespace ridge::cheats
