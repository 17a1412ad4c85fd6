// The part of a journal that verifies, and why the rest does not.
#pragma once

#include <cstddef>
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

JournalPrefix read_prefix(std::string_view text);

}  // namespace ridge::record
