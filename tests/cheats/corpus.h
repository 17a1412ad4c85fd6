// The corpus of candidates in tests/cheats/cpu. The first line of each file says what must become of it:
//
//   // ridge-cheat: gate=<the defence that must catch it> outcome=<WRONG, CHEAT, ...> [key=value ...] [proves]
//   // says: <words the report must hold>                                               (optional)
//   // ridge-honest: [key=value ...]
//
//   case     parameters of gemm, separated by commas; a small fp32 product unless given
//   flags    compiler flags, separated by commas
//   shows    the gates one of which is named in the result, where it is not the defence itself: a sandboxed candidate
//            that gives up shows as a status, and which line of a wrong output is crossed first may be chance
//   without  defences that are off from the start, as on a machine that has none: what lies behind them is looked at
//   needs    root, semaphore, processors (two of them): what the test must have
//   draw     one call in so many is drawn for the full comparison
//   proves   with the defence switched off it passes
//   part     of the defence (evaluate/defences.h): with nothing else switched off it passes
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/defences.h"
#include "record/worker.h"

namespace ridge::cheats {

struct Item {
  std::string name;
  bool honest = false, proves = false;
  record::Defence gate = record::Defence::kNone;
  record::Outcome outcome = record::Outcome::kPass;
  std::vector<record::Defence> shows;
  std::string says, needs;
  std::optional<evaluate::Part> part;
  evaluate::Defences defences;
  record::Case problem;
  record::Candidate candidate;
};

// All items, in the order of their names. A header that cannot be read ends the program with the file and the word.
const std::vector<Item>& corpus();

// What `ridge check` finds about an item.
record::CheckRow check(const Item& item, const evaluate::Defences& defences);
inline record::CheckRow check(const Item& item) { return check(item, item.defences); }

// Why this machine or user cannot show what the item shows; empty: it can.
std::string missing(const Item& item);

// Gates that are defences on the CPU and can be switched off; the others (a crash, a status, a failed build) are facts.
std::vector<record::Defence> defences();

}  // namespace ridge::cheats
