// Every number about hardware has a source, and the source says that number.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hardware/spec.h"

namespace ridge::hardware {

struct Finding {
  std::string file;
  int line = 0;  // 0: the file as a whole
  std::string rule, message;
};

// A line "<metric>: <value> <unit> <- <page>:<line-or-section>" or "<metric>: UNKNOWN (<why>)".
struct Citation {
  std::string metric, text, source;
  bool unknown = false;
};

// The whole database: names, required metrics, ranges, physics, formulas, citations, conflicts, hedges, edited pages.
std::vector<Finding> lint_database(const Database& database);

struct TextLint {
  std::vector<Finding> findings;
  int citations = 0;
  std::vector<std::string> gaps;  // "memory_data_rate", from lines that say UNKNOWN
};

// Any text that cites facts: a workspace's README, a plan, a report. Checks each citation line, and that no line below
// a heading "Hardware Spec" carries a hardware number without one, or a hedge.
TextLint lint_text(const Database& database, const std::string& file, std::string_view text);

// nullopt-like: metric is empty when the line is no citation.
Citation parse_citation(std::string_view line);

// The first word of `text` that weakens a statement ("approximately", "should be"), or empty.
std::string_view find_hedge(std::string_view text);

}  // namespace ridge::hardware
