// Reads the table that a project's benchmark wrote. Strict: a table that is half understood must not decide anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "project/project.h"

namespace ridge::project {

struct BenchTableRow {
  std::string label;
  bool passed = false;
  std::string check;   // as written
  double metric = 0;   // in the metric's unit; NaN on a failed row
  double latency = 0;  // seconds; NaN on a failed row
  double snr_db = 0;   // NaN when there is no such column
};

// Rows in the order of the file. Errors name the line: another header, a row with too few or too many cells, a label
// that is there twice, a Check that is neither PASS, FAIL nor ERROR, a passing row without a positive finite time.
Result<std::vector<BenchTableRow>> read_bench_table(std::string_view text, const Project& project);

// The same, and the labels are exactly `labels`, none missing and none more.
Result<std::vector<BenchTableRow>> read_bench_table(std::string_view text, const Project& project,
                                                    const std::vector<std::string>& labels);

}  // namespace ridge::project
