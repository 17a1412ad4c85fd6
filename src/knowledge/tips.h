// Tips: what earlier campaigns learned, one Markdown file per operator, processor and backend at
//   <experience>/<gpu>/<op>/<backend>/tips.md
// People write these files too, in any layout: every H2 or H3 block is one tip.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::knowledge {

struct Tips {
  std::string digest = "absent";  // SHA-256 of the file, or "absent" when there is none
  std::vector<std::string> entries;
};

// The blocks of a tips file; text before the first heading and the H1 title are no tip.
std::vector<std::string> parse_tips(std::string_view text);
// A missing file is no error.
Result<Tips> read_tips(const std::filesystem::path& path);

// Why a tip must not be followed: it praises a cache keyed on the identity of a tensor that is new in every training
// step, a gain for uniform loads only, or a weight cache without its bound. Empty: it may. A tip that warns of these
// passes.
std::string hygiene_problem(std::string_view tip);

// Appends tips that must not be followed to tips.quarantine.md beside the file, each once and with the reason; the file
// itself is left as it is. Returns those that may be followed.
Result<std::vector<std::string>> quarantine(const std::filesystem::path& path, const std::vector<std::string>& entries);

struct NewTip {
  std::string time;  // "2026-11-21 07:30"
  // The tip's identity, with which appending it again does nothing: `journal` are the first bytes of the hash of its
  // first event, because two campaigns of one day have the same name.
  std::string campaign, journal;
  std::int64_t round = 0;
  bool accepted = false;
  std::string context, signal, takeaway, applicability;  // all needed; a tip without evidence is not written
};
// Every text of the tip as one line of at most 500 bytes in which no comment begins: texts of proposers write no
// headings and no identities. Doing it again changes nothing.
NewTip on_one_line(NewTip tip);
// Appends what is not there yet, on_one_line; never changes what is. Refuses a tip with an empty field, and one that
// praises a cache keyed on the identity of an activation or a gradient: such a gain does not exist in training.
Status append_tips(const std::filesystem::path& path, const std::vector<NewTip>& tips);

// Where the tips of one target are; an error when a part could leave the folder.
Result<std::filesystem::path> tips_path(const std::filesystem::path& experience, std::string_view gpu,
                                        std::string_view op, std::string_view backend);

}  // namespace ridge::knowledge
