#include "roofline/analyse.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"
#include "roofline/numbers.h"

namespace ridge::roofline {
namespace {

// Peaks and latencies are printed to four digits; a utilisation that only rounding lifts above 1 is 1.
constexpr double kRounding = 0.002;
// Below this share of every limit nothing is busy: the problem waits.
constexpr double kIdle = 0.30;
constexpr double kAtCeiling = 0.90;
// A call shorter than this many empty launches is mostly launch.
constexpr double kLaunchDominates = 2.0;
constexpr const char* kAnswers =
    "give what you know or measured: --measured RATE for arithmetic, --bandwidth RATE for memory";

record::RooflineAxis axis(const Limit& limit, const char* unit, double work, double latency) {
  record::RooflineAxis a;
  a.name = limit.name;
  a.unit = unit;
  a.peak = limit.peak;
  a.measured = limit.measured;
  a.source = limit.source;
  if (limit.measured) a.cited = limit.cited;
  a.work = work;
  a.time = work / limit.peak;
  a.achieved = latency > 0 ? work / latency : 0;
  a.utilisation = latency > 0 ? a.time / latency : 0;
  return a;
}

Status check_problem(const Problem& problem, const Machine& machine) {
  if (problem.phases.empty() || machine.memory.empty()) return invalid("a roofline needs arithmetic and memory");
  double flop = 0;
  for (const Phase& phase : problem.phases) {
    if (phase.flop < 0 || !(phase.limit.peak >= 0))
      return invalid("{}: {:.4g} FLOP at {:.4g} FLOP/s", phase.limit.name, phase.flop, phase.limit.peak);
    flop += phase.flop;
  }
  if (!(flop > 0) && !(problem.compulsory_bytes > 0)) return invalid("{}: neither FLOP nor bytes", problem.label);
  if (problem.compulsory_bytes < 0 || problem.latency < 0)
    return invalid("{}: negative bytes or latency", problem.label);
  if (!(problem.target_fraction > 0 && problem.target_fraction <= 1)) {
    return invalid("a target of {} is not a fraction between 0 and 1", problem.target_fraction);
  }
  return ok_status();
}

Status check_possible(const record::RooflineReport& report, double arithmetic_time) {
  if (report.latency <= 0) return ok_status();
  if (arithmetic_time > report.latency * (1 + kRounding)) {
    const record::RooflineAxis& a = report.axes.front();
    return with_hint(invalid("{}: {:.4g} FLOP in {} is {:.1f} % of what {} can do ({} on {})", report.label,
                             report.flop, time_text(report.latency), 100 * arithmetic_time / report.latency, a.name,
                             rate_text(a.peak, a.unit), report.on),
                     "the FLOP count, the latency, the element type or the machine is wrong");
  }
  for (const record::RooflineAxis& a : report.axes) {
    if (a.unit == "B/s" && a.utilisation > 1 + kRounding) {
      return with_hint(
          invalid("{}: {:.4g} bytes in {} is {:.1f} % of the bandwidth of {} ({} on {})", report.label, a.work,
                  time_text(report.latency), 100 * a.utilisation, a.name, rate_text(a.peak, a.unit), report.on),
          "operands that stay in a cache between calls do not reach this memory: measure cold, or give the "
          "bytes that a profiler counted");
    }
  }
  return ok_status();
}

// A limit that nothing states takes no part, and the report says so.
bool is_known(const Limit& limit, record::RooflineReport& report) {
  if (limit.peak > 0) return true;
  report.unknown.push_back(limit.source);
  return false;
}

std::string classify(const record::RooflineReport& report, const Machine& machine) {
  if (report.latency <= 0) return {};
  if (machine.launch_latency > 0 && report.latency < kLaunchDominates * machine.launch_latency) return "launch";
  if (report.utilisation >= kAtCeiling) return "at-ceiling";
  if (report.utilisation < kIdle) return "latency";
  if (!report.unknown.empty()) return {};  // the limit that is not known may bind
  for (const record::RooflineAxis& a : report.axes) {
    if (a.name == report.bound) return a.unit == "B/s" ? "memory" : "compute";
  }
  return {};
}

void set_target(record::RooflineReport& report) {
  report.target_latency = report.bound_time / report.target_fraction;
  const auto bound = std::find_if(report.axes.begin(), report.axes.end(),
                                  [&](const record::RooflineAxis& a) { return a.name == report.bound; });
  const double rate = report.target_fraction * bound->peak;
  report.calculation =
      fmt::format("{:.0f} % of {} {} of {} = {}; {:.6g} {} / that = {}", 100 * report.target_fraction,
                  bound->measured ? "the measured ceiling" : "the cited peak", rate_text(bound->peak, bound->unit),
                  bound->name, rate_text(rate, bound->unit), bound->work, bound->unit == "B/s" ? "bytes" : "FLOP",
                  time_text(report.target_latency));
  report.stop_conditions = {
      fmt::format("latency at most {} ({})", time_text(report.target_latency), report.calculation),
      fmt::format("or {} of {} at {} or more", bound->name, report.on, rate_text(rate, bound->unit)),
      "or the budget is used up"};
}

}  // namespace

Result<record::RooflineReport> analyse(const Problem& problem, const Machine& machine) {
  RIDGE_CHECK_OK(check_problem(problem, machine));
  record::RooflineReport report;
  report.label = problem.label;
  report.on = machine.name;
  report.compulsory_bytes = problem.compulsory_bytes;
  report.profiled = problem.profiler_bytes > 0;
  report.bytes = report.profiled ? problem.profiler_bytes : problem.compulsory_bytes;
  report.latency = problem.latency;
  report.target_fraction = problem.target_fraction;
  double arithmetic_time = 0;
  for (const Phase& phase : problem.phases) {
    report.flop += phase.flop;
    if ((phase.flop == 0 && phase.limit.peak == 0) || !is_known(phase.limit, report)) continue;
    report.axes.push_back(axis(phase.limit, "FLOP/s", phase.flop, problem.latency));
    arithmetic_time += phase.flop / phase.limit.peak;
  }
  for (const Limit& level : machine.memory) {
    const double bytes = &level == &machine.memory.front() ? report.bytes
                         : level.name == "L2"              ? problem.l2_bytes
                                                           : problem.shared_bytes;
    if (bytes > 0 && is_known(level, report)) report.axes.push_back(axis(level, "B/s", bytes, problem.latency));
  }
  report.intensity = report.bytes > 0 ? report.flop / report.bytes : 0;
  if (report.axes.empty()) {
    return with_hint(make_error(ErrorCode::kUnsupported, "{} on {}: {}", problem.label, machine.name,
                                fmt::join(report.unknown, "; ")),
                     kAnswers);
  }
  const double peak = arithmetic_time > 0 ? report.flop / arithmetic_time : problem.phases.front().limit.peak;
  if (machine.memory.front().peak > 0) report.ridge = peak / machine.memory.front().peak;
  const auto longest = std::max_element(report.axes.begin(), report.axes.end(), [](const auto& a, const auto& b) {
    return (a.unit == "B/s" ? -1 : a.time) < (b.unit == "B/s" ? -1 : b.time);
  });
  report.bound = longest->name;
  report.bound_time = longest->unit == "B/s" ? longest->time : arithmetic_time;
  for (const record::RooflineAxis& a : report.axes) {
    if (a.unit == "B/s" && a.time > report.bound_time) report.bound = a.name, report.bound_time = a.time;
  }
  RIDGE_CHECK_OK(check_possible(report, arithmetic_time));
  report.utilisation = problem.latency > 0 ? std::min(1.0, report.bound_time / problem.latency) : 0;
  report.limit = classify(report, machine);
  set_target(report);
  return report;
}

}  // namespace ridge::roofline
