// Takes a campaign whose journal was edited, damaged or torn back to its last good line. Nothing is lost: what is
// dropped goes into a folder beside the journal, and the journal's next line says what was dropped, with its SHA-256.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/clock.h"
#include "ridge/result.h"

namespace ridge::campaign {

struct RepairPlan {
  std::int64_t good_lines = 0;
  std::size_t good_bytes = 0, dropped_bytes = 0;
  std::int64_t dropped_lines = 0;  // an unfinished one included
  std::string problem;             // of the first line that is dropped; empty: nothing is
  std::string last_good;           // "decided, 2026-11-21T07:30:12Z"
  [[nodiscard]] bool needed() const { return dropped_bytes > 0; }
};

// What repair_campaign() would do. A good line follows from the one before, belongs to a possible story, and is signed
// where the campaign is anchored. kCorrupt when not even the first line is good.
Result<RepairPlan> plan_repair(const std::filesystem::path& directory);

// Does it: the dropped lines, and the rendered rounds and memory records of rounds that are no more, go to
// <directory>/dropped-<N>, whose path it gives. Refused while another process works on the campaign.
Result<std::filesystem::path> repair_campaign(const std::filesystem::path& directory, Clock& clock);

}  // namespace ridge::campaign
