#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/axes.h"
#include "report/charts.h"
#include "report/numbers.h"
#include "report/words.h"

namespace ridge::report {
namespace {

bool placed(const record::ReportRound& round) {
  return !not_measured(round) && std::isfinite(round.speed) && round.speed > 0;
}
bool measured(const record::ReportRound& round) { return placed(round) && round.measured.has_value(); }

// What the ceiling allows, as a multiple of the baseline's speed; NaN when unknown.
double ceiling_speed(const Model& model) { return 1 / geomean_fraction_before(model); }

double last_round(const Model& model) {
  return model.rounds.empty() ? 1.0 : static_cast<double>(model.rounds.back().round);
}

// The accepted line is a step: a level holds until the next accepted round.
struct Steps {
  std::vector<Point> line, low, high;
  void hold_then_go(const Frame& frame, double round, double level, double lower, double upper) {
    const auto step = [&](std::vector<Point>& points, double value) {
      if (!points.empty()) points.push_back({frame.x(round), points.back().y});
      points.push_back(frame.at(round, value));
    };
    step(line, level);
    step(low, lower);
    step(high, upper);
  }
};

void draw_steps(Svg& svg, Labels& labels, const Model& model, const Frame& frame) {
  Steps steps;
  steps.hold_then_go(frame, 1, 1, 1, 1);
  double level = 1, low = 1, high = 1;
  for (const auto& round : model.rounds) {
    if (round.state != record::RoundState::kAccepted || !measured(round)) continue;
    level = round.speed;
    low = round.low;
    high = round.high;
    steps.hold_then_go(frame, static_cast<double>(round.round), level, low, high);
  }
  steps.hold_then_go(frame, last_round(model) + 0.4, level, low, high);
  std::vector<Point> band = steps.low;
  band.insert(band.end(), steps.high.rbegin(), steps.high.rend());
  svg.polygon(band, "band");
  svg.polyline(steps.line, "line-good");
  for (std::size_t i = 1; i < steps.line.size(); ++i) labels.keep_clear(steps.line[i - 1], steps.line[i]);
}

void whisker(Svg& svg, const Frame& frame, double x, double low, double high, std::string_view style) {
  if (!(low > 0) || !std::isfinite(high)) return;
  const double lower = std::max(low, frame.y.low), upper = std::min(high, frame.y.high);
  if (lower <= upper) svg.line(frame.at(x, lower), frame.at(x, upper), style);
}

// Of a round without a speed.
struct StripMark {
  Marker shape;
  const char* style;
  const char* words;
};

StripMark strip_mark(const record::ReportRound& round) {
  if (round.state == record::RoundState::kUnfinished) return {Marker::kTriangle, "s-open", "under way"};
  if (not_measured(round)) return {Marker::kCross, "s-void", "not measured"};
  return {Marker::kCross, "s-bad", "failed"};
}

void draw_rounds(Svg& svg, Labels& labels, const Model& model, const Frame& frame) {
  const double radius = model.rounds.size() > 30 ? 3.0 : 4.5;
  const double strip = frame.area.y + frame.area.height - 9;
  for (const auto& round : model.rounds) {
    const double x = static_cast<double>(round.round);
    const bool accepted = round.state == record::RoundState::kAccepted;
    const std::string words =
        fmt::format("round {}, {}: {}, {}", round.round, round_state(round), round.hypothesis.title,
                    placed(round) ? measured_words(round) : outcome_words(round.outcome));
    if (!placed(round)) {
      const StripMark mark = strip_mark(round);
      svg.marker(mark.shape, {frame.x(x), strip}, radius, mark.style, words);
      continue;
    }
    labels.keep_clear({frame.x(x) - 7, frame.y(round.speed) - 7, 14, 14});
    if (!measured(round)) {
      svg.marker(Marker::kTriangle, frame.at(x, round.speed), radius, "s-base", words);
      continue;
    }
    whisker(svg, frame, x, round.low, round.high, accepted ? "whisker-good" : "whisker-rejected");
    svg.marker(accepted ? Marker::kCircle : Marker::kDiamond, frame.at(x, round.speed), radius,
               accepted ? "s-good" : "s-rejected", words);
  }
}

Extent speeds(const Model& model) {
  Extent extent;
  extent.add(1);
  for (const auto& round : model.rounds) {
    if (!placed(round)) continue;
    for (const double value : {round.speed, round.low, round.high}) {
      if (value > round.speed / 3 && value < round.speed * 3) extent.add(value);
    }
  }
  if (model.total) {
    extent.add(model.total->low);
    extent.add(model.total->high);
  }
  return extent;
}

bool shows_level(const Frame& frame, double level) { return level > frame.y.low && level < frame.y.high; }

void draw_level(Svg& svg, Labels& labels, const Frame& frame, double level) {
  if (!shows_level(frame, level)) return;
  const double y = frame.y(level);
  const Point left{frame.area.x, y}, right{frame.area.x + frame.area.width, y};
  svg.line(left, right, "roof dash");
  labels.keep_clear(left, right);
}

// After everything else has its place.
void name_level(Svg& svg, Labels& labels, const Frame& frame, double level, const std::string& words) {
  if (!shows_level(frame, level)) return;
  const double y = frame.y(level);
  labels.place_along(svg, {frame.area.x + frame.area.width, y}, {frame.area.x, y}, words, "t roof-t");
}

void draw_final(Svg& svg, Labels& labels, const Model& model, const Frame& frame, double x) {
  if (!model.total || model.total_source != "final") return;
  whisker(svg, frame, x, model.total->low, model.total->high, "whisker-total");
  labels.keep_clear({frame.x(x) - 5, frame.y(model.total->ratio) - 5, 10, 10});
  svg.marker(Marker::kSquare, frame.at(x, model.total->ratio), 5, "s-total",
             fmt::format("final, measured afresh: {}", total_words(model)));
  labels.place(svg, frame.at(x, model.total->ratio), ratio_text(model.total->ratio), "t b", 9, 63);
}

// Only what the drawing shows.
std::vector<LegendEntry> trend_legend(const Model& model) {
  const auto any = [&](auto test) { return std::any_of(model.rounds.begin(), model.rounds.end(), test); };
  using Round = record::ReportRound;
  std::vector<LegendEntry> entries;
  if (model.accepted > 0) entries.push_back({Marker::kCircle, "s-good", "accepted, with interval"});
  if (any([](const Round& r) { return measured(r) && r.state != record::RoundState::kAccepted; })) {
    entries.push_back({Marker::kDiamond, "s-rejected", "measured, not accepted"});
  }
  if (any([](const Round& r) { return placed(r) && !measured(r); })) {
    entries.push_back({Marker::kTriangle, "s-base", "screened out"});
  }
  for (const auto& round : model.rounds) {
    if (placed(round)) continue;
    const StripMark mark = strip_mark(round);
    const bool listed = std::any_of(entries.begin(), entries.end(),
                                    [&](const LegendEntry& entry) { return entry.words == mark.words; });
    if (!listed) entries.push_back({mark.shape, mark.style, mark.words});
  }
  if (model.total_source == "final") entries.push_back({Marker::kSquare, "s-total", "final against baseline"});
  return entries;
}

}  // namespace

std::string trend_chart(const Model& model) {
  if (!model.baseline || model.rounds.empty()) return {};
  Extent extent = speeds(model);
  const double ceiling = ceiling_speed(model);
  const bool far = !(ceiling < extent.high * 2.5);  // a ceiling far away would flatten what happened
  if (!far) extent.add(ceiling * 1.06);
  const bool logarithmic = extent.high / extent.low > 2.5;
  const Box area{50, 26, 392, 250};
  const double end = last_round(model) + (model.total_source == "final" ? 1.6 : 0.6);
  const Scale x{0.4, std::max(end, 2.6), area.x, area.x + area.width, false};
  // Room at the bottom for the strip of rounds that were not measured.
  const double bottom = area.y + area.height - 18;
  const Frame frame{area, x,
                    logarithmic ? log_scale(extent, bottom, area.y, 0.05) : linear_scale(extent, bottom, area.y, 0.06)};
  Svg svg(
      "trend", 452, 318, "Speed over the rounds",
      fmt::format("Speed relative to the baseline for {} rounds, {} accepted. {}", model.rounds.size(), model.accepted,
                  model.total ? "In the end " + total_words(model) : std::string("No round was accepted yet.")));
  svg.rect({area.x, bottom, area.width, 18}, "strip");
  std::vector<double> rounds;
  for (const double value : ticks(x, 12)) {
    if (value == std::floor(value) && value >= 1 && value <= last_round(model)) rounds.push_back(value);
  }
  frame.draw_x(
      svg, rounds, [](double v) { return fmt::format("{:.0f}", v); },
      logarithmic ? "round (vertical axis logarithmic)" : "round");
  frame.draw_y(
      svg, ticks(frame.y, 9), [](double v) { return plain(v) + "×"; }, "speed over the baseline");
  Labels labels(area);
  if (!far) draw_level(svg, labels, frame, ceiling);
  if (far && std::isfinite(ceiling)) {
    svg.text({area.x + area.width, area.y - 8}, fmt::format("measured ceiling {}, above", ratio_text(ceiling)),
             "t roof-t", Anchor::kEnd);
  }
  draw_steps(svg, labels, model, frame);
  draw_rounds(svg, labels, model, frame);
  draw_final(svg, labels, model, frame, last_round(model) + 0.9);
  if (!far) name_level(svg, labels, frame, ceiling, fmt::format("measured ceiling {}", ratio_text(ceiling)));
  const std::vector<LegendEntry> entries = trend_legend(model);
  return svg.str() + legend(entries);
}

}  // namespace ridge::report
