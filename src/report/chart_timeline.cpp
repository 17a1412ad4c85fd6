// When what was done: the phases of a campaign on its active time, and the evidence of one decision by its sessions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/axes.h"
#include "report/charts.h"
#include "report/numbers.h"
#include "report/words.h"

namespace ridge::report {
namespace {

struct TimelineRow {
  const char* words;
  const char* style;
  std::vector<std::string_view> activities;
};

// In the order of a campaign. What is in no row took no time to speak of.
const std::vector<TimelineRow>& timeline_rows() {
  static const std::vector<TimelineRow> rows = {{"prepare", "part p3", {"prepared", "tips_read"}},
                                                {"baseline", "part p5", {"baseline", "calibrated"}},
                                                {"propose", "part p2", {"proposed"}},
                                                {"screen", "part p1", {"screened"}},
                                                {"evaluate", "part p0", {"evaluated"}},
                                                {"profile", "part p4", {"profiled", "escalated"}},
                                                {"final", "part p6", {"final", "replicated", "reported"}}};
  return rows;
}

// The unit in which an axis of that length reads best, and its seconds.
std::pair<double, std::string_view> axis_unit(double seconds) {
  if (seconds > 2 * 3600) return {3600, "h"};
  if (seconds > 120) return {60, "min"};
  return {1, "s"};
}

struct TimelineBar {
  double from, to;  // pixels
  std::string words;
};

// Bars of one row; those that touch within half a pixel are one.
std::vector<TimelineBar> bars_of(const Model& model, const TimelineRow& row, const Scale& x) {
  std::vector<TimelineBar> bars;
  for (const record::ReportSpan& span : model.timeline) {
    if (std::ranges::find(row.activities, span.activity) == row.activities.end() || !(span.seconds > 0)) continue;
    const double from = x(span.start), to = x(span.start + span.seconds);
    if (!bars.empty() && from - bars.back().to < 0.5) {
      bars.back().to = std::max(bars.back().to, to);
      bars.back().words = fmt::format("{}, several", row.words);
      continue;
    }
    bars.push_back({from, to,
                    fmt::format("{}{}: {} from {} on", row.words,
                                span.round > 0 ? fmt::format(", round {}", span.round) : std::string(),
                                duration_text(span.seconds), duration_text(span.start))});
  }
  return bars;
}

}  // namespace

std::string timeline_chart(const Model& model) {
  if (model.timeline.empty() || !(model.active_seconds > 0)) return {};
  Extent extent;
  extent.add(0);
  extent.add(model.active_seconds);
  const auto [unit, unit_name] = axis_unit(model.active_seconds);
  constexpr double kRow = 22, kLeft = 70, kWide = 528;
  const Scale x = linear_scale(extent, kLeft, kLeft + kWide, 0);
  const Scale shown{0, x.high / unit, x.from, x.to, false};  // the same in that unit, for round ticks
  std::vector<std::pair<const TimelineRow*, std::vector<TimelineBar>>> rows;
  for (const TimelineRow& row : timeline_rows()) {
    std::vector<TimelineBar> bars = bars_of(model, row, x);
    if (!bars.empty()) rows.emplace_back(&row, std::move(bars));
  }
  if (rows.empty()) return {};
  const Box area{kLeft, 6, kWide, kRow * static_cast<double>(rows.size())};
  const Frame frame{area, shown, {}};
  Svg svg("timeline", kLeft + kWide + 6, area.y + area.height + 42, "When what was done",
          fmt::format("{} of active time in {} rows. The table of times has the sums.",
                      duration_text(model.active_seconds), rows.size()));
  frame.draw_x(svg, ticks(shown, 8), plain, fmt::format("active time, {}", unit_name));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double y = area.y + kRow * static_cast<double>(i);
    svg.text({area.x - 8, y + 15}, rows[i].first->words, "t", Anchor::kEnd);
    for (const TimelineBar& bar : rows[i].second)
      svg.rect({bar.from, y + 3, std::max(bar.to - bar.from, 0.7), kRow - 6}, rows[i].first->style, bar.words);
  }
  return svg.str();
}

std::string evidence_chart(std::string_view id, const record::ReportRound& round) {
  if (round.evidence.empty() || !round.decision) return {};
  const double needed = round.decision->needed;
  Extent extent;
  for (const double value : {1.0, needed}) extent.add(value);
  for (const double value : round.evidence) extent.add(std::max(value, 1e-3));
  const Box area{50, 10, 392, 150};
  const Scale x{0, static_cast<double>(std::max<std::size_t>(round.evidence.size(), 4)) + 0.5, area.x,
                area.x + area.width, false};
  const Frame frame{area, x, log_scale(extent, area.y + area.height, area.y, 0.06)};
  Svg svg(id, 452, 204, fmt::format("Evidence over the sessions of round {}", round.round),
          fmt::format("{} sessions that count; the last value is {} of the {} needed.", round.evidence.size(),
                      digits3(round.evidence.back()), digits3(needed)));
  std::vector<double> sessions;
  for (const double value : ticks(x, 10))
    if (value >= 1 && value == std::floor(value)) sessions.push_back(value);
  frame.draw_x(
      svg, sessions, [](double v) { return fmt::format("{:.0f}", v); }, "sessions that count");
  frame.draw_y(
      svg, ticks(frame.y, 5), [](double v) { return plain(v); }, "evidence E");
  svg.line(frame.at(x.low, needed), frame.at(x.high, needed), "threshold");
  svg.line(frame.at(x.low, 1), frame.at(x.high, 1), "zero");
  std::vector<Point> line = {frame.at(0, 1)};
  for (std::size_t i = 0; i < round.evidence.size(); ++i)
    line.push_back(frame.at(static_cast<double>(i + 1), std::max(round.evidence[i], 1e-3)));
  svg.polyline(line, "line-good");
  for (std::size_t i = 0; i < round.evidence.size(); ++i)
    svg.marker(Marker::kCircle, line[i + 1], 3.4, "s-good",
               fmt::format("after {} sessions: E = {}", i + 1, digits3(round.evidence[i])));
  return svg.str() + legend(std::vector<LegendEntry>{
                         {Marker::kCircle, "threshold", fmt::format("{} needed to accept", digits3(needed)), true},
                         {Marker::kCircle, "zero", "1: no evidence either way", true}});
}

std::string sparkline(std::string_view id, std::span<const double> speeds, std::string_view words) {
  Extent extent;
  extent.add(1);
  for (const double speed : speeds)
    if (speed > 0) extent.add(speed);
  if (speeds.empty()) return {};
  const Box area{2, 4, 116, 24};
  const Scale x{0, static_cast<double>(std::max<std::size_t>(speeds.size() - 1, 1)), area.x, area.x + area.width,
                false};
  const Scale y = log_scale(extent, area.y + area.height, area.y, 0.02);
  Svg svg(id, 120, 32, "Best so far over the rounds", words);
  svg.line({area.x, y(1)}, {area.x + area.width, y(1)}, "grid");
  std::vector<Point> line;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    const double at = x(static_cast<double>(i));
    if (i > 0) line.push_back({at, y(speeds[i - 1])});
    line.push_back({at, y(speeds[i])});
  }
  svg.polyline(line, "line-good");
  svg.marker(Marker::kCircle, line.back(), 2.6, "s-good");
  return svg.str();
}

}  // namespace ridge::report
