#include "campaign/foreign_table.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/text.h"

namespace ridge::campaign {
namespace {

using record::ForeignCampaign;

constexpr std::string_view kPassWords[] = {"PASS", "PASSED", "TRUE", "1", "YES", "Y", "OK"};
constexpr std::string_view kFailWords[] = {"FAIL", "FAILED", "FALSE", "0", "NO", "N", "ERROR"};
constexpr std::string_view kDeviations[] = {"_stddev", "_std", "_stddev_pct", "_std_pct"};

std::string capitals(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

bool is_deviation(std::string_view name) {
  return std::ranges::any_of(kDeviations, [&](std::string_view end) { return name.ends_with(end); });
}

// A header and where its columns are, each under the first of several names that it has.
class Columns {
 public:
  explicit Columns(std::vector<std::string> names) : names_(std::move(names)) {}
  [[nodiscard]] std::size_t of(std::initializer_list<std::string_view> aliases) const {
    for (const std::string_view alias : aliases) {
      const auto found = std::ranges::find(names_, alias);
      if (found != names_.end()) return static_cast<std::size_t>(found - names_.begin());
    }
    return names_.size();
  }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
};

std::optional<double> finite_cell(const std::vector<std::string>& cells, std::size_t column) {
  const std::optional<double> value = column < cells.size() ? number_of(cells[column]) : std::nullopt;
  return value && std::isfinite(*value) ? value : std::nullopt;
}

// The deviations of one row: adds to the worst noise, and says whether all so far were 0.
void take_deviations(const Columns& columns, const std::vector<std::string>& cells, bool& any, bool& nonzero,
                     std::optional<double>& worst) {
  const std::vector<std::string>& names = columns.names();
  for (std::size_t i = 0; i < std::min(names.size(), cells.size()); ++i) {
    if (!is_deviation(names[i])) continue;
    const std::optional<double> deviation = finite_cell(cells, i);
    if (!deviation) continue;
    any = true;
    nonzero = nonzero || *deviation != 0;
    double noise = *deviation / 100;
    if (!names[i].ends_with("_pct")) {
      const std::string base = names[i].substr(0, names[i].rfind('_'));
      const std::optional<double> mean = finite_cell(cells, columns.of({base, base + "_mean"}));
      if (!mean || *mean <= 0) continue;
      noise = *deviation / *mean;
    }
    worst = std::max(worst.value_or(0), noise);
  }
}

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                   : std::nullopt;
}

std::optional<std::int64_t> round_in(std::string_view text) {
  const std::size_t at = text.find("round-");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + 6);
  return whole_number(std::string(rest.substr(0, rest.find_first_not_of("0123456789"))));
}

}  // namespace

std::vector<std::string> lines_of_text(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> table_cells(std::string_view line) {
  line = trimmed(line).substr(1);
  if (line.ends_with('|')) line.remove_suffix(1);
  std::vector<std::string> cells = split(line, '|');
  for (std::string& cell : cells) cell = trimmed(cell);
  return cells;
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::set<std::string> ForeignBenchmark::labels() const {
  std::set<std::string> all;
  for (const Shape& shape : shapes) all.insert(shape.label);
  return all;
}

std::vector<double> ForeignBenchmark::rates(bool backward) const {
  std::vector<double> values;
  for (const Shape& shape : shapes) {
    const std::optional<double>& rate = backward ? shape.backward : shape.forward;
    if (shape.check == "PASS" && rate) values.push_back(*rate);
  }
  return values;
}

ForeignBenchmark read_foreign_benchmark(std::string_view text) {
  ForeignBenchmark table;
  const bool whole = text.ends_with('\n');
  const std::vector<std::string> lines = lines_of_text(text);
  if (lines.empty()) return table;
  if (!whole) table.malformed.emplace_back("ends in the middle of a line");
  table.header = lines[0];
  const Columns columns(csv_cells(lines[0]));
  const std::size_t none = columns.names().size();
  const std::size_t label = columns.of({"label", "Case"}), check = columns.of({"Check", "correct", "check"});
  const std::size_t forward = columns.of({"Forward TFLOPS", "fwd_tflops_mean", "fwd_tflops"});
  const std::size_t backward = columns.of({"Backward TFLOPS", "bwd_tflops_mean", "bwd_tflops"});
  const std::size_t forward_ms = columns.of({"Forward Time (ms)", "fwd_ms_mean"});
  const std::size_t backward_ms = columns.of({"Backward Time (ms)", "bwd_ms_mean"});
  table.has_label = label < none && check < none;
  table.has_forward = forward < none;
  table.has_metric = std::ranges::any_of(columns.names(), [](const std::string& name) {
    const std::string word = capitals(name);
    return word.find("FLOPS") != std::string::npos || word.find("B/S") != std::string::npos ||
           word.find("TIME") != std::string::npos;
  });
  if (!table.has_label) return table;
  bool deviations = false, nonzero = false;
  std::set<std::string> seen;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const std::vector<std::string> cells = csv_cells(lines[i]);
    if (cells.size() != none) {
      table.malformed.push_back(fmt::format("line {} has {} cells where {} belong", i + 1, cells.size(), none));
      if (cells.size() <= std::max(label, check)) continue;
    }
    ForeignBenchmark::Shape shape;
    shape.label = cells[label];
    if (!seen.insert(shape.label).second) table.contradictions.push_back(shape.label + " is there twice");
    const std::string word = capitals(cells[check]);
    const bool passed = std::ranges::find(kPassWords, word) != std::end(kPassWords);
    const bool failed = std::ranges::find(kFailWords, word) != std::end(kFailWords);
    shape.check = passed ? "PASS" : failed ? (word == "ERROR" ? "ERROR" : "FAIL") : cells[check].substr(0, 60);
    if (!passed && !failed && !word.empty())
      table.malformed.push_back(fmt::format("{}: Check is \"{}\"", shape.label, shape.check));
    shape.forward = finite_cell(cells, forward);
    shape.backward = finite_cell(cells, backward);
    shape.forward_ms = finite_cell(cells, forward_ms);
    shape.backward_ms = finite_cell(cells, backward_ms);
    if (passed) take_deviations(columns, cells, deviations, nonzero, table.worst_noise);
    table.shapes.push_back(std::move(shape));
  }
  table.deviations_are_zero = deviations && !nonzero;
  return table;
}

ForeignCosts read_foreign_costs(std::string_view text) {
  constexpr std::size_t kCells = 9;
  ForeignCosts costs;
  if (!text.empty() && !text.ends_with('\n')) costs.malformed.emplace_back("ends in the middle of a line");
  bool header = false;
  for (const std::string& line : lines_of_text(text)) {
    if (!line.starts_with("|")) continue;
    const std::vector<std::string> cells = table_cells(line);
    if (!header) {
      header = true;
      if (cells.size() < kCells || cells[0] != "Time" || cells[1] != "Phase" || cells[2] != "Round")
        costs.malformed.emplace_back("its first row does not name Time, Phase, Round and six more");
      continue;
    }
    if (!cells.empty() && cells[0].find("---") != std::string::npos) continue;
    if (cells.size() < kCells) {
      costs.malformed.push_back(
          fmt::format("\"{}\" has {} cells where {} belong", cells.empty() ? "" : cells[0], cells.size(), kCells));
      continue;
    }
    const std::string usd = cells[7].starts_with('$') ? cells[7].substr(1) : cells[7];
    costs.rows.push_back({cells[0], cells[1], cells[3], whole_number(cells[2]), finite_cell(cells, 4), number_of(usd)});
  }
  if (!header) costs.malformed.emplace_back("holds no table");
  return costs;
}

std::vector<ForeignCampaign::ProfiledKernel> read_foreign_trace(std::string_view text) {
  std::vector<ForeignCampaign::ProfiledKernel> kernels;
  const std::vector<std::string> lines = lines_of_text(text);
  if (lines.empty()) return kernels;
  const Columns columns(csv_cells(lines[0]));
  const std::size_t name = columns.of({"Kernel_Name"}), start = columns.of({"Start_Timestamp"}),
                    end = columns.of({"End_Timestamp"}), none = columns.names().size();
  if (name == none || start == none || end == none) return kernels;
  std::map<std::string, ForeignCampaign::ProfiledKernel> by_name;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> cells = csv_cells(lines[i]);
    const std::optional<double> from = finite_cell(cells, start), to = finite_cell(cells, end);
    if (cells.size() != none || cells[name].empty() || !from || !to || *to <= *from) continue;
    ForeignCampaign::ProfiledKernel& kernel = by_name[cells[name]];
    kernel.name = cells[name];
    ++kernel.launches;
    kernel.duration_us += (*to - *from) * 1e-3;
  }
  for (auto& [key, kernel] : by_name) kernels.push_back(std::move(kernel));
  std::ranges::stable_sort(kernels, std::greater<>(), &ForeignCampaign::ProfiledKernel::duration_us);
  return kernels;
}

std::vector<ForeignCampaign::Direction> read_foreign_directions(std::string_view log) {
  std::vector<ForeignCampaign::Direction> directions;
  std::string section;
  for (const std::string& line : lines_of_text(log)) {
    if (line.starts_with("## ")) section = line;
    if (section == "## Directions to Try" && (line.starts_with("- [ ] ") || line.starts_with("- [x] "))) {
      const bool tried = line[3] == 'x';
      std::string text(trimmed(std::string_view(line).substr(6, tried ? line.rfind(" (verified") - 6 : line.npos)));
      if (text.starts_with("~~") && text.ends_with("~~") && text.size() > 4) text = text.substr(2, text.size() - 4);
      directions.push_back({tried ? "tried" : "open", text, {}, tried ? round_in(line) : std::nullopt});
    }
    if (section != "## Verified Ineffective Directions" || !line.starts_with("|")) continue;
    const std::vector<std::string> cells = table_cells(line);
    if (cells.size() < 3 || cells[0] == "Direction" || cells[0].find("---") != std::string::npos) continue;
    directions.push_back({"ineffective", cells[0], cells[2], round_in(cells[1])});
  }
  return directions;
}

}  // namespace ridge::campaign
