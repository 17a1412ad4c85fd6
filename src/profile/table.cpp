#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/text.h"
#include "profile/capture.h"

namespace ridge::profile {
namespace {

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool has_all(const std::vector<std::string>& header, const std::vector<std::string>& columns) {
  return std::all_of(columns.begin(), columns.end(), [&](const std::string& wanted) {
    return std::find(header.begin(), header.end(), wanted) != header.end();
  });
}

struct PrintedUnit {
  std::string_view name;
  double scale;
  std::string_view base;
};
constexpr PrintedUnit kPrintedUnits[] = {
    {"%", 0.01, "1"},
    {"nsecond", 1e-9, "s"},
    {"ns", 1e-9, "s"},
    {"usecond", 1e-6, "s"},
    {"us", 1e-6, "s"},
    {"msecond", 1e-3, "s"},
    {"ms", 1e-3, "s"},
    {"msec", 1e-3, "s"},
    {"second", 1, "s"},
    {"s", 1, "s"},
    {"byte", 1, "B"},
    {"Kbyte", 1e3, "B"},
    {"Mbyte", 1e6, "B"},
    {"Gbyte", 1e9, "B"},
    {"Tbyte", 1e12, "B"},
    {"KB", 1024, "B"},
    {"byte/second", 1, "B/s"},
    {"Kbyte/second", 1e3, "B/s"},
    {"Mbyte/second", 1e6, "B/s"},
    {"Gbyte/second", 1e9, "B/s"},
    {"Tbyte/second", 1e12, "B/s"},
    {"byte/s", 1, "B/s"},
    {"Kbyte/s", 1e3, "B/s"},
    {"Mbyte/s", 1e6, "B/s"},
    {"Gbyte/s", 1e9, "B/s"},
    {"Tbyte/s", 1e12, "B/s"},
    {"byte/block", 1, "B"},
    {"Kbyte/block", 1e3, "B"},
};

}  // namespace

int Table::column(std::string_view name) const {
  const auto found = std::find(header.begin(), header.end(), name);
  return found == header.end() ? -1 : static_cast<int>(found - header.begin());
}

Result<Table> read_table(std::string_view text, const std::vector<std::string>& columns) {
  Table table;
  while (!text.empty() && table.header.empty()) {
    std::vector<std::string> cells = csv_cells(next_line(text));
    if (has_all(cells, columns)) table.header = std::move(cells);
  }
  if (table.header.empty()) return invalid("no line names the columns {}", fmt::join(columns, ", "));
  while (!text.empty()) {
    std::vector<std::string> cells = csv_cells(next_line(text));
    if (cells.size() == table.header.size()) table.rows.push_back(std::move(cells));
  }
  if (table.rows.empty()) return invalid("the table has no rows");
  return table;
}

bool read_number(const std::string& text, double& value) {
  std::string digits;
  for (const char c : text) {
    if (c != ',') digits += c;
  }
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return failure == std::errc() && end == digits.data() + digits.size() && !digits.empty();
}

Value in_base_units(double value, const std::string& unit) {
  for (const PrintedUnit& one : kPrintedUnits) {
    if (one.name == unit) return {value * one.scale, std::string(one.base)};
  }
  return {value, "1"};
}

void set_span(Capture& capture) {
  double first = -1, last = 0;
  for (const Launch& launch : capture.launches) {
    if (launch.start < 0) return;
    if (first < 0 || launch.start < first) first = launch.start;
    last = std::max(last, launch.start + launch.duration);
  }
  if (first >= 0) capture.span = last - first;
}

Result<Capture> parse_capture(std::string_view text, std::string tool) {
  struct Reader {
    std::string_view tool, sign;  // sign: what only this tool's reports hold
    Result<Capture> (*read)(std::string_view text);
  };
  constexpr Reader kReaders[] = {
      {"ncu", "Kernel Name", parse_ncu},
      {"cupti", "CorrId", parse_cupti},
      {"rocprof-compute", "Dispatch_ID", parse_rocprof_compute},
      {"rocprofv3", "Kernel_Name", parse_rocprofv3},
      {"perf", "task-clock", parse_perf},
  };
  for (const Reader& reader : kReaders) {
    const bool wanted = tool.empty() ? text.find(reader.sign) != std::string_view::npos : tool == reader.tool;
    if (!wanted) continue;
    Result<Capture> capture = reader.read(text);
    return capture ? capture : Result<Capture>(in_context(std::string(reader.tool), capture.error()));
  }
  return with_hint(
      tool.empty() ? invalid("this is no report of a known profiler") : invalid("no profiler \"{}\"", tool),
      "known are ncu, cupti, rocprofv3, rocprof-compute and perf (docs/profile.md says which files)");
}

}  // namespace ridge::profile
