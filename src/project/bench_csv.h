// Reads the table that a project's benchmark wrote. Strict: a table that is half understood must not decide anything.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "project/project.h"

namespace ridge::project {

struct BenchTableRow {
  std::string label;
  bool passed = false;
  std::string check;   // as written
  double metric = 0;   // forward throughput, in the project's unit; NaN on a failed row
  double latency = 0;  // seconds that the project's primary metric counts; NaN on a failed row
  double work = 0;     // FLOP, bytes, or what the throughput counts, done in `latency`
  double value = 0;    // of the primary metric's column; NaN where the metric is a rate or a time
  struct Direction {
    std::string name;  // forward | backward
    double seconds = 0, work = 0;
  };
  std::vector<Direction> directions;                     // of a passing row: those that it has
  std::vector<std::pair<std::string, double>> noise_db;  // of every column NAME_snr, in the header's order

  // One launch of every direction.
  [[nodiscard]] double seconds() const {
    double sum = 0;
    for (const Direction& direction : directions) sum += direction.seconds;
    return sum;
  }
};

// Rows in the order of the file. Errors name the line: another header, a second table, a row with too few or too many
// cells, a label that is there twice, a Check that is neither PASS, FAIL nor ERROR, a passing row without a positive
// finite time and throughput, a backward pass with one of the two, a throughput that is not what B, M, N, K and the
// time give, a passing row without what the primary metric counts.
Result<std::vector<BenchTableRow>> read_bench_table(std::string_view text, const Project& project);

// The same, and the labels are exactly `labels`, none missing and none more.
Result<std::vector<BenchTableRow>> read_bench_table(std::string_view text, const Project& project,
                                                    const std::vector<std::string>& labels);

// The columns that hold a number in every row, in the order of the header, and the metrics that they give.
struct TableContents {
  std::vector<std::string> columns, metrics;
};
Result<TableContents> contents_of(std::string_view text, const Project& project);
// What a campaign is judged by unless its user says otherwise: the combined step where there is a backward pass.
std::string default_metric(const TableContents& contents, const Project& project);

}  // namespace ridge::project
