// The part of a journal that verifies, and why the rest does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "record/journal.h"

namespace ridge::record {

struct JournalPrefix {
  std::vector<Event> events;
  std::vector<std::size_t> ends;  // byte behind each event's line
  std::size_t bytes = 0;          // of the lines that verify
  std::string problem;            // of the line behind them; empty: there is none, or it is unfinished
};

// Behind which event a text goes on; of the whole journal: none.
struct JournalPlace {
  std::int64_t events = 0;
  std::string last_hash;
};

JournalPrefix read_prefix(std::string_view text, const JournalPlace& behind = {});

// The error of a line (counted from 1) that does not verify, and the byte that it begins at.
Error broken_journal(std::size_t line, std::size_t offset, std::string_view what);

}  // namespace ridge::record
