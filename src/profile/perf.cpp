// Reports of Linux perf: `perf stat -x,`.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "profile/capture.h"

namespace ridge::profile {
namespace {

// Of the time that a counter was wanted. perf itself scales the count to all of that time; from a turn shorter than
// this the result says little.
constexpr double kLeastShare = 0.2;
// Of the time on one kind of core, where a processor has two: perf multiplies the counts of each kind as if the program
// had run on it all the time.
constexpr double kOneKind = 0.9;

struct PerfEvent {
  std::string unit, name;  // the unit that counts it: "cpu_core"; empty: the cores, which are all alike
  double value = 0, share = 1;
  std::string printed_unit;
};

// "cycles:u" and "cpu/cycles/u" are "cycles"; "cpu_core/cycles/u" is "cycles" of cpu_core. Events of other units keep
// theirs in the name.
void set_name(PerfEvent& event, const std::string& printed) {
  const std::size_t slash = printed.find('/'), end = printed.find('/', slash + 1);
  event.name = printed.substr(0, printed.find(':'));
  if (slash == std::string::npos || end == std::string::npos) return;
  event.unit = printed.substr(0, slash);
  event.name = printed.substr(slash + 1, end - slash - 1);
  if (event.unit == "cpu") event.unit.clear();
}

// value,unit,event,run time,share of the time,...; with -r the scatter of the runs stands before the run time. An event
// that the machine cannot count, or that never had its turn, reads "<not supported>" or "<not counted>".
Result<std::optional<PerfEvent>> read_event(const std::vector<std::string>& cells) {
  PerfEvent event;
  if (cells.size() < 3 || cells[2].empty() || !read_number(cells[0], event.value)) return std::optional<PerfEvent>();
  if (!std::isfinite(event.value) || event.value < 0)
    return invalid("{} of {} is no count: the report is damaged", cells[0], cells[2]);
  const std::size_t at = cells.size() > 3 && cells[3].ends_with('%') ? 5 : 4;
  double percent = 100;
  if (cells.size() > at && read_number(cells[at], percent)) event.share = percent / 100;
  event.printed_unit = cells[1];
  set_name(event, cells[2]);
  return std::optional(std::move(event));
}

// The kinds of cores that counted cycles, with the share of the time on each.
std::map<std::string, double> kinds_of(const std::vector<PerfEvent>& events) {
  std::map<std::string, double> kinds;
  for (const PerfEvent& event : events) {
    if (event.name == "cycles" && !event.unit.empty()) kinds[event.unit] = event.share;
  }
  return kinds;
}

// The kind of core whose events tell of the program: the only one, or the one that it ran on nearly all the time. Empty
// with a remark where it moved between them.
std::string kind_of(const std::map<std::string, double>& kinds, Capture& capture) {
  if (kinds.empty()) return {};
  const auto most = std::ranges::max_element(kinds, {}, [](const auto& kind) { return kind.second; });
  if (most->second >= kOneKind) return most->first;
  std::string shares;
  for (const auto& [name, share] : kinds)
    shares += fmt::format("{}{} for {:.0f} %", shares.empty() ? "" : ", ", name, 100 * share);
  capture.remarks.push_back(
      fmt::format("cycles (counted on {} of the time, and the counts of two kinds of cores do not add up)", shares));
  return {};
}

}  // namespace

Result<Capture> parse_perf(std::string_view text) {
  Capture capture{.tool = "perf"};
  Launch launch;
  launch.kernel = "the program";
  std::vector<PerfEvent> events;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    RIDGE_TRY(event, read_event(csv_cells(text.substr(0, end))));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (event) events.push_back(std::move(*event));
  }
  const std::map<std::string, double> kinds = kinds_of(events);
  const std::string kind = kind_of(kinds, capture);
  for (const PerfEvent& event : events) {
    const bool of_core = event.unit.empty() || event.unit == kind;
    if (!of_core && kinds.contains(event.unit)) continue;
    if (of_core && event.share < kLeastShare) {
      capture.remarks.push_back(fmt::format("{} (counted for {:.0f} % of the time)", event.name, 100 * event.share));
      continue;
    }
    const std::string name = of_core ? event.name : event.unit + "/" + event.name + "/";
    launch.counters[name] = in_base_units(event.value, event.printed_unit);
  }
  for (const char* clock : {"duration_time", "task-clock"}) {
    const auto found = launch.counters.find(clock);
    if (found == launch.counters.end() || launch.duration > 0) continue;
    launch.duration = found->second.unit == "s" ? found->second.value : found->second.value * 1e-9;
  }
  if (launch.counters.empty() && capture.remarks.empty())
    return invalid("no event was counted: this machine shows no counters to perf");
  capture.launches.push_back(std::move(launch));
  return capture;
}

}  // namespace ridge::profile
