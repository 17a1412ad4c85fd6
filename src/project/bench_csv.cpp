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

// A rate and the work that is known otherwise may differ by this factor: a mean of rates is not the rate of a mean.
constexpr double kWorkTolerance = 1.5;
constexpr std::string_view kNoiseSuffix = "_snr";

bool is_measure(double value) { return std::isfinite(value) && value > 0; }

bool is_absent(const std::string& cell) { return cell.empty() || cell == "nan" || cell == "NaN"; }

// One line of a table, its cells by the names of their columns.
class Line {
 public:
  Line(const std::vector<std::string>& names, std::vector<std::string> cells, std::size_t number)
      : names_(names), cells_(std::move(cells)), number_(number) {}

  // Empty where there is no such column.
  [[nodiscard]] std::string text(std::string_view name) const {
    const auto at = static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
    return at < cells_.size() ? cells_[at] : std::string();
  }
  [[nodiscard]] double value(std::string_view name) const { return number_of(text(name)); }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] bool has_column(std::string_view name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }
  [[nodiscard]] Error refused(std::string_view what) const {
    return invalid("benchmark table, line {}: \"{}\" {}", number_, text("label"), what);
  }

 private:
  const std::vector<std::string>& names_;
  std::vector<std::string> cells_;
  std::size_t number_;
};

// FLOP of a matrix product of B, M, N and K; 0 where the table does not say.
double product_flop(const Line& line, const Project& project) {
  if (quantity_of(project) != record::Quantity::kFlops) return 0;
  const double b = line.has_column("B") ? line.value("B") : 1;
  const double flop = 2 * b * line.value("M") * line.value("N") * line.value("K");
  return is_measure(flop) ? flop : 0;
}

// `flop`: what the shape says that it is; 0 for not known.
Result<BenchTableRow::Direction> direction_of(const Line& line, const Project& project, const std::string& name,
                                              const std::string& rate_column, const std::string& time_column,
                                              double flop) {
  const double rate = line.value(rate_column), seconds = line.value(time_column) * 1e-3;
  if (!is_measure(rate) || !is_measure(seconds)) {
    return line.refused(fmt::format("passes without a time and a throughput: {} is \"{}\", {} is \"{}\"", time_column,
                                    line.text(time_column), rate_column, line.text(rate_column)));
  }
  const double work = rate * project.metric_unit * seconds;
  if (flop > 0 && !(work < kWorkTolerance * flop && flop < kWorkTolerance * work)) {
    return line.refused(fmt::format(
        "has {} x {} = {:.4g} FLOP, and B, M, N and K give {:.4g}: another unit, or columns that are swapped",
        rate_column, time_column, work, flop));
  }
  return BenchTableRow::Direction{name, seconds, flop > 0 ? flop : work};
}

Status read_directions(const Line& line, const Project& project, BenchTableRow& row) {
  const double flop = product_flop(line, project);
  RIDGE_TRY(forward, direction_of(line, project, "forward", project.metric_column, project.time_column, flop));
  row.directions.push_back(forward);
  const std::string &rate = project.backward_metric_column, &time = project.backward_time_column;
  if (time.empty() || (is_absent(line.text(rate)) && is_absent(line.text(time)))) return ok_status();
  RIDGE_TRY(backward, direction_of(line, project, "backward", rate, time, 2 * flop));
  row.directions.push_back(backward);
  return ok_status();
}

// What the primary metric counts of a passing row.
Status read_metric(const Line& line, const Project& project, BenchTableRow& row) {
  const record::Metric& metric = project.metric;
  row.latency = row.work = 0;
  for (const BenchTableRow::Direction& direction : row.directions) {
    const bool counts = direction.name == "forward" ? metric.forward : metric.backward;
    row.latency += counts ? direction.seconds : 0;
    row.work += counts ? direction.work : 0;
  }
  if (metric.backward && row.directions.size() < 2) {
    return line.refused(fmt::format("passes without a backward pass, which {} counts", metric.name));
  }
  if (!metric.percentile.empty()) {
    const std::string& column = metric.percentile == "p50" ? project.p50_column : project.p99_column;
    row.latency = line.value(column) * 1e-3;
    if (!is_measure(row.latency))
      return line.refused(fmt::format("passes without {}: \"{}\"", metric.name, line.text(column)));
  }
  if (metric.quantity == record::Quantity::kColumn) {
    row.value = line.value(metric.column);
    if (!is_measure(row.value))
      return line.refused(fmt::format("passes without a {}: \"{}\"", metric.column, line.text(metric.column)));
  }
  return ok_status();
}

Result<BenchTableRow> read_row(const Line& line, const Project& project) {
  BenchTableRow row;
  row.label = line.text("label");
  row.check = line.text("Check");
  row.passed = row.check == "PASS";
  row.metric = line.value(project.metric_column);
  row.latency = row.work = row.value = kNone;
  for (const std::string& name : line.names()) {
    if (name.ends_with(kNoiseSuffix)) row.noise_db.emplace_back(name, line.value(name));
  }
  if (!row.passed) return row;
  RIDGE_CHECK_OK(read_directions(line, project, row));
  RIDGE_CHECK_OK(read_metric(line, project, row));
  return row;
}

struct Table {
  std::vector<std::string> names;
  std::vector<Line> lines;
};

// `table.names` must outlive the lines.
Status cut(std::string_view text, const Project& project, Table& table) {
  const std::vector<std::string_view> lines = lines_of(text);
  if (lines.empty()) return invalid("the benchmark table is empty");
  if (lines.front() != project.header) {
    return invalid("benchmark table, line 1: the header is not the frozen one: \"{}\"", lines.front().substr(0, 200));
  }
  RIDGE_TRY(names, cells_of(lines.front(), 1));
  table.names = std::move(names);
  std::set<std::string> seen;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    if (lines[i] == project.header) return invalid("benchmark table, line {}: a second table begins", i + 1);
    RIDGE_TRY(cells, cells_of(lines[i], i + 1));
    if (cells.size() != table.names.size()) {
      return invalid("benchmark table, line {}: {} cells where {} belong", i + 1, cells.size(), table.names.size());
    }
    table.lines.emplace_back(table.names, std::move(cells), i + 1);
    const std::string check = table.lines.back().text("Check");
    if (check != "PASS" && check != "FAIL" && check != "ERROR") {
      return invalid("benchmark table, line {}: Check is \"{}\", not PASS, FAIL or ERROR", i + 1, check);
    }
    if (!seen.insert(table.lines.back().text("label")).second) return table.lines.back().refused("is there twice");
  }
  return ok_status();
}

}  // namespace

Result<std::vector<BenchTableRow>> read_bench_table(std::string_view text, const Project& project) {
  Table table;
  RIDGE_CHECK_OK(cut(text, project, table));
  std::vector<BenchTableRow> rows;
  for (const Line& line : table.lines) {
    RIDGE_TRY(row, read_row(line, project));
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

Result<TableContents> contents_of(std::string_view text, const Project& project) {
  Table table;
  RIDGE_CHECK_OK(cut(text, project, table));
  TableContents contents;
  const auto holds = [&](const std::string& name) {
    return !name.empty() && !table.lines.empty() &&
           std::all_of(table.lines.begin(), table.lines.end(),
                       [&](const Line& line) { return is_measure(line.value(name)); });
  };
  for (const std::string& name : table.names) {
    if (holds(name)) contents.columns.push_back(name);
  }
  const record::Quantity quantity = quantity_of(project);
  const std::string suffix = quantity == record::Quantity::kFlops ? "_tflops" : "_gbps";
  const bool rates = quantity != record::Quantity::kColumn, forward = holds(project.time_column),
             backward = holds(project.backward_time_column) && holds(project.backward_metric_column);
  if (rates && forward) contents.metrics.push_back("forward" + suffix);
  if (rates && backward) contents.metrics.push_back("backward" + suffix);
  if (rates && forward && backward) contents.metrics.push_back("combined_step" + suffix);
  if (forward) contents.metrics.emplace_back("latency");
  if (holds(project.p50_column)) contents.metrics.emplace_back("latency_p50");
  if (holds(project.p99_column)) contents.metrics.emplace_back("latency_p99");
  return contents;
}

std::string default_metric(const TableContents& contents, const Project& project) {
  for (const std::string& name : contents.metrics) {
    if (name.starts_with("combined_step")) return name;
  }
  if (quantity_of(project) == record::Quantity::kColumn) return "column:" + project.metric_column + ":higher";
  return contents.metrics.empty() ? std::string() : contents.metrics.front();
}

}  // namespace ridge::project
