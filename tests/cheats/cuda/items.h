// The corpus of CUDA candidates in tests/cheats/cuda. The first line of each file says what must become of it:
//
//   // ridge-cheat: gate=<the defence that must catch it> outcome=<WRONG, CHEAT, ...> [key=value ...] [proves]
//   // ridge-honest: [key=value ...]
//
//   case       parameters of gemm, separated by commas; a small f32 product unless given
//   shows      the gates one of which is named in the result, where it is not the defence itself
//   launches   timed launches after the check, for what behaves for a while
//   sanitizer  the tool of compute-sanitizer that must see it
//   part       what of the gate must catch it (evaluate/defences.h), in place of all of it for `proves`
//   proves     with the defence switched off it passes (proves=bias: with that one off as well, which may notice, too)
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/defences.h"
#include "record/measurement.h"

namespace ridge::cheats {

struct CudaItem {
  std::string name;
  bool honest = false, proves = false, deterministic = false;
  record::Defence gate = record::Defence::kNone;
  std::vector<record::Outcome> outcomes;
  std::vector<record::Defence> shows, off_too;
  std::optional<evaluate::Part> part;
  std::int64_t launches = 12;
  std::string sanitizer;
  record::Case problem;
  record::Candidate candidate;
};

// All items of a folder, by name. A header that cannot be read ends the program with the file and the word.
std::vector<CudaItem> cuda_items(const std::filesystem::path& folder);

}  // namespace ridge::cheats
