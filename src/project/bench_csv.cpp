#include "project/bench_csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace ridge::project {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Result<std::vector<std::string>> cells_of(std::string_view line, std::size_t number) {
  if (std::count(line.begin(), line.end(), '"') % 2 != 0) {
    return invalid("benchmark table, line {}: a quote is not closed", number);
  }
  return csv_cells(line);
}

double number_of(const std::string& text) {
  double value = kNone;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : kNone;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::size_t column(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

}  // namespace

Result<std::vector<BenchTableRow>> read_bench_table(std::string_view text, const Project& project) {
  const std::vector<std::string_view> lines = lines_of(text);
  if (lines.empty()) return invalid("the benchmark table is empty");
  if (lines.front() != project.header) {
    return invalid("benchmark table, line 1: the header is not the frozen one: \"{}\"", lines.front().substr(0, 200));
  }
  RIDGE_TRY(names, cells_of(lines.front(), 1));
  const std::size_t label = column(names, "label"), check = column(names, "Check");
  const std::size_t metric = column(names, project.metric_column), time = column(names, project.time_column);
  const std::size_t snr = column(names, "out_snr");
  std::vector<BenchTableRow> rows;
  std::set<std::string> seen;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    RIDGE_TRY(cells, cells_of(lines[i], i + 1));
    if (cells.size() != names.size()) {
      return invalid("benchmark table, line {}: {} cells where {} belong", i + 1, cells.size(), names.size());
    }
    BenchTableRow row;
    row.label = cells[label];
    row.check = cells[check];
    row.passed = row.check == "PASS";
    if (!row.passed && row.check != "FAIL" && row.check != "ERROR") {
      return invalid("benchmark table, line {}: Check is \"{}\", not PASS, FAIL or ERROR", i + 1, row.check);
    }
    if (!seen.insert(row.label).second)
      return invalid("benchmark table, line {}: \"{}\" is there twice", i + 1, row.label);
    row.metric = number_of(cells[metric]);
    row.latency = number_of(cells[time]) * 1e-3;
    row.snr_db = snr < cells.size() ? number_of(cells[snr]) : kNone;
    const bool timed = std::isfinite(row.latency) && row.latency > 0 && std::isfinite(row.metric) && row.metric > 0;
    if (row.passed && !timed) {
      return invalid("benchmark table, line {}: \"{}\" passes without a time and a throughput", i + 1, row.label);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<std::vector<BenchTableRow>> read_bench_table(std::string_view text, const Project& project,
                                                    const std::vector<std::string>& labels) {
  RIDGE_TRY(rows, read_bench_table(text, project));
  std::set<std::string> wanted(labels.begin(), labels.end());
  for (const BenchTableRow& row : rows) {
    if (wanted.erase(row.label) == 0)
      return invalid("the benchmark measured \"{}\", which was not asked for", row.label);
  }
  if (!wanted.empty()) return invalid("the benchmark left out \"{}\"", *wanted.begin());
  return rows;
}

}  // namespace ridge::project
