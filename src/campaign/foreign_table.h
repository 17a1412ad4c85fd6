// The tables of a foreign campaign: benchmark.csv under any of the headers in use, cost.md, the launches of a profile.
// Everything that can be read is read; what cannot is said in a sentence.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "record/foreign.h"

namespace ridge::campaign {

std::vector<std::string> lines_of_text(std::string_view text);
// "| a | b |" -> "a", "b"
std::vector<std::string> table_cells(std::string_view line);
// The whole text as a number.
std::optional<double> number_of(const std::string& text);

struct ForeignBenchmark {
  using Shape = record::ForeignCampaign::Shape;
  std::string header;
  std::vector<Shape> shapes;          // check: PASS, FAIL, or as the file has it
  std::optional<double> worst_noise;  // the largest deviation over its rate, of the rows that pass
  bool deviations_are_zero = false;   // there are some, and every one of them is 0
  bool has_label = false, has_metric = false, has_forward = false;
  std::vector<std::string> malformed, contradictions;

  [[nodiscard]] std::set<std::string> labels() const;
  // Rates of the rows that pass: "forward" or "backward".
  [[nodiscard]] std::vector<double> rates(bool backward) const;
};
ForeignBenchmark read_foreign_benchmark(std::string_view text);

struct ForeignCosts {
  std::vector<record::ForeignCampaign::Cost> rows;
  std::vector<std::string> malformed;
};
ForeignCosts read_foreign_costs(std::string_view text);

// Kernels of a rocprofv3 kernel trace, most time first; none when it is no such table.
std::vector<record::ForeignCampaign::ProfiledKernel> read_foreign_trace(std::string_view text);

// What logs/optimize.md says of ideas: "- [ ] x" is open, "- [x] ~~x~~ (verified in round-3)" was tried, a row of the
// table of ineffective directions is that.
std::vector<record::ForeignCampaign::Direction> read_foreign_directions(std::string_view log);

}  // namespace ridge::campaign
