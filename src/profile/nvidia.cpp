// Reports of Nsight Compute and of CUPTI's activity records.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "profile/capture.h"

namespace ridge::profile {
namespace {

// Columns that identify a launch; everything else of the raw page is a metric.
constexpr std::string_view kNcuIdentity[] = {"ID",      "Process ID", "Process Name", "Host Name", "Kernel Name",
                                             "Context", "Stream",     "Block Size",   "Grid Size", "Device",
                                             "CC"};

bool is_identity(const std::string& column) {
  return std::find(std::begin(kNcuIdentity), std::end(kNcuIdentity), column) != std::end(kNcuIdentity);
}

void set_device(Capture& capture, const Table& table, const std::vector<std::string>& row) {
  const int name = table.column("device__attribute_display_name");
  if (name >= 0 && capture.device.empty()) capture.device = row[static_cast<std::size_t>(name)];
  const int cc = table.column("CC");
  if (cc >= 0 && capture.device.empty() && !row[static_cast<std::size_t>(cc)].empty())
    capture.device = "compute capability " + row[static_cast<std::size_t>(cc)];
}

// Page "details": one row per launch and metric.
Result<Capture> parse_details(const Table& table) {
  Capture capture{.tool = "ncu"};
  const auto id = static_cast<std::size_t>(table.column("ID")),
             kernel = static_cast<std::size_t>(table.column("Kernel Name")),
             name = static_cast<std::size_t>(table.column("Metric Name")),
             unit = static_cast<std::size_t>(table.column("Metric Unit")),
             value = static_cast<std::size_t>(table.column("Metric Value"));
  std::map<std::string, std::size_t> launches;
  for (const std::vector<std::string>& row : table.rows) {
    if (row[id].empty()) continue;
    const auto [found, fresh] = launches.emplace(row[id], capture.launches.size());
    if (fresh) capture.launches.push_back({row[kernel], -1, 0, {}});
    set_device(capture, table, row);
    double number = 0;
    if (read_number(row[value], number))
      capture.launches[found->second].counters[row[name]] = in_base_units(number, row[unit]);
  }
  return capture;
}

// Page "raw": one column per metric, the first row below the header holds the units.
Result<Capture> parse_raw(const Table& table) {
  Capture capture{.tool = "ncu"};
  const auto id = static_cast<std::size_t>(table.column("ID")),
             kernel = static_cast<std::size_t>(table.column("Kernel Name"));
  const std::vector<std::string>& units = table.rows.front();
  if (!units[id].empty()) return invalid("the row of units under the header is missing");
  for (std::size_t r = 1; r < table.rows.size(); ++r) {
    const std::vector<std::string>& row = table.rows[r];
    Launch launch{row[kernel], -1, 0, {}};
    set_device(capture, table, row);
    for (std::size_t c = 0; c < row.size(); ++c) {
      double number = 0;
      if (!is_identity(table.header[c]) && read_number(row[c], number))
        launch.counters[table.header[c]] = in_base_units(number, units[c]);
    }
    capture.launches.push_back(std::move(launch));
  }
  return capture;
}

}  // namespace

Result<Capture> parse_ncu(std::string_view text) {
  RIDGE_TRY(table, read_table(text, {"ID", "Kernel Name"}));
  const bool details = table.column("Metric Name") >= 0 && table.column("Metric Value") >= 0;
  RIDGE_TRY(capture, details ? parse_details(table) : parse_raw(table));
  for (Launch& launch : capture.launches) {
    for (const char* name : {"gpu__time_duration.sum", "Duration"}) {
      const auto found = launch.counters.find(name);
      if (found != launch.counters.end()) launch.duration = found->second.value;
    }
  }
  if (capture.launches.empty()) return invalid("no kernel was profiled");
  return capture;
}

Result<Capture> parse_cupti(std::string_view text) {
  RIDGE_TRY(table, read_table(text, {"Start (ns)", "Duration (ns)", "CorrId", "Name"}));
  Capture capture{.tool = "cupti"};
  const auto start = static_cast<std::size_t>(table.column("Start (ns)")),
             duration = static_cast<std::size_t>(table.column("Duration (ns)")),
             name = static_cast<std::size_t>(table.column("Name"));
  const int device = table.column("Device"), grid = table.column("GrdX");
  for (const std::vector<std::string>& row : table.rows) {
    if (grid >= 0 && row[static_cast<std::size_t>(grid)].empty()) continue;  // a copy or a fill, not a kernel
    double from = 0, took = 0;
    if (!read_number(row[start], from) || !read_number(row[duration], took))
      return invalid("a row has no start or duration: {}", row[name]);
    Launch launch{row[name], from * 1e-9, took * 1e-9, {}};
    for (std::size_t c = 0; c < row.size(); ++c) {
      double number = 0;
      if (!read_number(row[c], number)) continue;
      const std::string& column = table.header[c];
      const double scale = column.ends_with("(MB)") ? 1e6 : 1;
      launch.counters[column] = {number * scale, scale > 1 ? "B" : "1"};
    }
    if (device >= 0 && capture.device.empty()) capture.device = row[static_cast<std::size_t>(device)];
    capture.launches.push_back(std::move(launch));
  }
  if (capture.launches.empty()) return invalid("no kernel is in the trace");
  set_span(capture);
  return capture;
}

}  // namespace ridge::profile
