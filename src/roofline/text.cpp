// The report in words: for a terminal and for the README of a workspace.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "roofline/analyse.h"
#include "roofline/numbers.h"

namespace ridge::roofline {
namespace {

std::string four_digits(double value, double scale, const char* prefix, std::string_view unit) {
  const double shown = value / scale;
  const int decimals = shown >= 1000 ? 0 : shown >= 100 ? 1 : shown >= 10 ? 2 : 3;
  return fmt::format("{:.{}f} {}{}", shown, decimals, prefix, unit);
}

std::string hardware_spec(const record::RooflineReport& report) {
  std::string text = "## Hardware Spec\n\n" + report.on + "\n\n";
  for (const record::RooflineAxis& axis : report.axes) {
    if (const std::string& line = axis.measured ? axis.cited : axis.source; !line.empty()) text += "- " + line + "\n";
  }
  const bool measured = std::any_of(report.axes.begin(), report.axes.end(), [](const auto& a) { return a.measured; });
  if (measured) text += "- measured ceilings: see Roofline\n";
  for (const std::string& fact : report.unknown) text += fmt::format("- {}\n", fact);
  return text + "\n";
}

std::string roofline(const record::RooflineReport& report) {
  std::string text = "## Roofline\n\n";
  text += fmt::format("{}: {:.0f} FLOP, {:.0f} bytes ({}), {:.2f} FLOP per byte; the roofs meet at {:.1f}.\n\n",
                      report.label, report.flop, report.bytes, report.profiled ? "counted by a profiler" : "compulsory",
                      report.intensity, report.ridge);
  text += "| limit | peak | from | work | alone it takes |\n|---|---|---|---|---|\n";
  for (const record::RooflineAxis& a : report.axes) {
    text += fmt::format("| {} | {} | {} | {:.4g} | {} |\n", a.name, rate_text(a.peak, a.unit), a.source, a.work,
                        time_text(a.time));
  }
  text += fmt::format("\nBound by {}: nothing is faster than {}.\n\n", report.bound, time_text(report.bound_time));
  if (!report.unknown.empty()) text += "Of what is known: the limits that read UNKNOWN above may bind sooner.\n\n";
  return text;
}

std::string stop_conditions(const record::RooflineReport& report) {
  std::string text = "## Stop Conditions\n\n";
  for (const std::string& condition : report.stop_conditions) text += "- " + condition + "\n";
  return text + "\n";
}

// Cuts the section "## <title>" out of a Markdown text; where it was, or npos.
std::size_t cut_section(std::string& text, const std::string& title) {
  const std::string head = "## " + title + "\n";
  std::size_t start = text.starts_with(head) ? 0 : text.find("\n" + head);
  if (start == std::string::npos) return start;
  if (start != 0 || !text.starts_with(head)) ++start;
  const std::size_t next = std::min(text.find("\n## ", start + head.size() - 1), text.size());
  text.erase(start, next == text.size() ? next - start : next + 1 - start);
  return start;
}

}  // namespace

std::string rate_text(double value, std::string_view unit) {
  if (value >= 1e15) return four_digits(value, 1e15, "P", unit);
  if (value >= 1e12) return four_digits(value, 1e12, "T", unit);
  return four_digits(value, 1e9, "G", unit);
}

std::string time_text(double seconds) {
  if (seconds >= 1) return four_digits(seconds, 1, "", "s");
  if (seconds >= 1e-3) return four_digits(seconds, 1e-3, "m", "s");
  if (seconds >= 1e-6) return four_digits(seconds, 1e-6, "u", "s");
  return four_digits(seconds, 1e-9, "n", "s");
}

std::string to_text(const record::RooflineReport& report) {
  std::string text =
      fmt::format("{} on {}\n  {:.0f} FLOP, {:.0f} bytes ({}): {:.2f} FLOP per byte; the roofs meet at {:.1f}\n",
                  report.label, report.on, report.flop, report.bytes,
                  report.profiled ? "counted by a profiler" : "compulsory", report.intensity, report.ridge);
  if (report.profiled) text += fmt::format("  compulsory would be {:.0f} bytes\n", report.compulsory_bytes);
  for (const record::RooflineAxis& a : report.axes) {
    text += fmt::format("  {:<14} {:>16}  alone {:>10}", a.name, rate_text(a.peak, a.unit), time_text(a.time));
    if (report.latency > 0)
      text += fmt::format("  reached {:>16}, {:.1f} %", rate_text(a.achieved, a.unit), 100 * a.utilisation);
    text += fmt::format("\n    {}\n", a.source);
    if (!a.cited.empty()) text += fmt::format("    cited is {}\n", a.cited);
  }
  text += fmt::format("  bound by {}: nothing is faster than {}\n", report.bound, time_text(report.bound_time));
  if (report.latency > 0) {
    text += fmt::format("  {} is {:.1f} % of that bound: {}\n", time_text(report.latency), 100 * report.utilisation,
                        report.limit);
  }
  for (const std::string& fact : report.unknown) text += fmt::format("  UNKNOWN and left out: {}\n", fact);
  if (!report.unknown.empty())
    text += "  give what you know: --measured RATE for arithmetic, --bandwidth RATE for memory\n";
  return text + fmt::format("  target {}: {}\n", time_text(report.target_latency), report.calculation);
}

std::string to_markdown(const record::RooflineReport& report) {
  return hardware_spec(report) + roofline(report) + stop_conditions(report);
}

std::string with_sections(const std::string& readme, const record::RooflineReport& report) {
  std::string text = readme;
  std::size_t place = std::string::npos;
  for (const char* title : {"Stop Conditions", "Roofline", "Hardware Spec"}) {
    if (const std::size_t cut = cut_section(text, title); cut != std::string::npos) place = cut;
  }
  if (place == std::string::npos) {
    if (!text.empty() && !text.ends_with("\n\n")) text += text.ends_with("\n") ? "\n" : "\n\n";
    place = text.size();
  }
  return text.insert(place, to_markdown(report));
}

}  // namespace ridge::roofline
