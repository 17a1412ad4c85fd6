// Reports of rocprofv3 and of rocprof-compute.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "profile/capture.h"

namespace ridge::profile {
namespace {

// Start and end in nanoseconds, where the report has them.
void set_times(Launch& launch, const Table& table, const std::vector<std::string>& row) {
  const int start = table.column("Start_Timestamp"), end = table.column("End_Timestamp");
  double from = 0, to = 0;
  if (start < 0 || end < 0 || !read_number(row[static_cast<std::size_t>(start)], from) ||
      !read_number(row[static_cast<std::size_t>(end)], to))
    return;
  launch.start = from * 1e-9;
  launch.duration = (to - from) * 1e-9;
}

void take_numbers(Launch& launch, const Table& table, const std::vector<std::string>& row) {
  for (std::size_t c = 0; c < row.size(); ++c) {
    double number = 0;
    if (read_number(row[c], number)) launch.counters[table.header[c]] = {number, "1"};
  }
}

}  // namespace

// A trace has one row per launch; a counter collection has one per launch and counter, which belong together by
// Dispatch_Id, or by Correlation_Id in the reports of ROCm 6.
Result<Capture> parse_rocprofv3(std::string_view text) {
  RIDGE_TRY(table, read_table(text, {"Kernel_Name"}));
  Capture capture{.tool = "rocprofv3"};
  const auto kernel = static_cast<std::size_t>(table.column("Kernel_Name"));
  const int name = table.column("Counter_Name"), value = table.column("Counter_Value"),
            agent = table.column("Agent_Id"), dispatch = table.column("Dispatch_Id");
  const int id = dispatch >= 0 ? dispatch : table.column("Correlation_Id");
  if (name >= 0 && id < 0) return invalid("counters without Dispatch_Id or Correlation_Id belong to no launch");
  std::map<std::string, std::size_t> launches;
  for (const std::vector<std::string>& row : table.rows) {
    const std::string launch = name < 0 ? std::to_string(launches.size()) : row[static_cast<std::size_t>(id)];
    const auto [found, fresh] = launches.emplace(launch, capture.launches.size());
    if (fresh) {
      capture.launches.push_back({row[kernel], -1, 0, {}});
      set_times(capture.launches.back(), table, row);
      take_numbers(capture.launches.back(), table, row);
    }
    if (agent >= 0 && capture.device.empty()) capture.device = row[static_cast<std::size_t>(agent)];
    double number = 0;
    if (name >= 0 && value >= 0 && read_number(row[static_cast<std::size_t>(value)], number))
      capture.launches[found->second].counters[row[static_cast<std::size_t>(name)]] = {number, "1"};
  }
  set_span(capture);
  return capture;
}

Result<Capture> parse_rocprof_compute(std::string_view text) {
  RIDGE_TRY(table, read_table(text, {"Dispatch_ID", "Kernel_Name"}));
  Capture capture{.tool = "rocprof-compute"};
  const auto kernel = static_cast<std::size_t>(table.column("Kernel_Name"));
  for (const std::vector<std::string>& row : table.rows) {
    Launch launch{row[kernel], -1, 0, {}};
    set_times(launch, table, row);
    take_numbers(launch, table, row);
    capture.launches.push_back(std::move(launch));
  }
  set_span(capture);
  return capture;
}

}  // namespace ridge::profile
