// The state file of a foreign campaign driver: run.json, as far as it is judged. Lenient: unknown keys are let be.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::record {

struct ForeignRun {
  struct Entry {
    std::int64_t round = 0;
    std::string decision;
  };
  std::string campaign;
  std::int64_t best_round = 0;
  std::vector<Entry> history;
};

// An error when it is no JSON object; what is missing or of another type stays empty.
Result<ForeignRun> parse_foreign_run(std::string_view text);

}  // namespace ridge::record
