#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/axes.h"
#include "report/charts.h"
#include "report/numbers.h"
#include "report/words.h"

namespace ridge::report {
namespace {

using record::ReportRound;

void draw_mark(Svg& svg, Labels& labels, const Frame& frame, const ReportRound& round) {
  const bool accepted = round.state == record::RoundState::kAccepted;
  const double expected = expected_ratio(round);
  const Point at = frame.at(expected, round.measured->ratio);
  const double low = std::max(round.measured->low, frame.y.low), high = std::min(round.measured->high, frame.y.high);
  if (low <= high) {
    svg.line(frame.at(expected, low), frame.at(expected, high), accepted ? "whisker-good" : "whisker-rejected");
  }
  labels.keep_clear({at.x - 6, at.y - 6, 12, 12});
  svg.marker(accepted ? Marker::kCircle : Marker::kDiamond, at, 4.5, accepted ? "s-good" : "s-rejected",
             fmt::format("round {}: {}: expected {}, measured {}", round.round, round.hypothesis.title,
                         ratio_text(expected), measured_words(round)));
}

}  // namespace

std::string expected_chart(const Model& model) {
  std::vector<const ReportRound*> rounds;
  Extent x_extent, y_extent;
  for (const ReportRound& round : model.rounds) {
    if (!has_outcome(round)) continue;
    rounds.push_back(&round);
    x_extent.add(expected_ratio(round));
    y_extent.add(round.measured->ratio);
  }
  if (rounds.size() < 2) return {};
  x_extent.add(1);
  y_extent.add(1);
  const bool logarithmic = std::max(x_extent.high / x_extent.low, y_extent.high / y_extent.low) > 2.5;
  const Box area{58, 26, 384, 250};
  const auto scale = [&](const Extent& extent, double from, double to) {
    return logarithmic ? log_scale(extent, from, to, 0.08) : linear_scale(extent, from, to, 0.08);
  };
  const Frame frame{area, scale(x_extent, area.x, area.x + area.width), scale(y_extent, area.y + area.height, area.y)};
  Svg svg("expected", 452, 318, "Expected and measured",
          fmt::format("What {} rounds were expected to gain against what was measured. {}", rounds.size(),
                      expectation_words(model)));
  const auto words = [](double value) { return ratio_text(value); };
  frame.draw_x(svg, ticks(frame.x, 6), words, "expected speed over the incumbent");
  frame.draw_y(svg, ticks(frame.y, 8), words, "measured");
  Labels labels(area);
  const double low = std::max(frame.x.low, frame.y.low), high = std::min(frame.x.high, frame.y.high);
  if (low < high) {
    svg.line(frame.at(low, low), frame.at(high, high), "roof dash");
    labels.keep_clear(frame.at(low, low), frame.at(high, high));
  }
  for (const ReportRound* round : rounds) draw_mark(svg, labels, frame, *round);
  for (const ReportRound* round : rounds) {
    labels.place(svg, frame.at(expected_ratio(*round), round->measured->ratio), std::to_string(round->round), "t", 7,
                 30);
  }
  return svg.str() + legend(std::vector<LegendEntry>{{Marker::kCircle, "s-good", "accepted, with interval"},
                                                     {Marker::kDiamond, "s-rejected", "measured, not accepted"},
                                                     {Marker::kCircle, "roof dash", "as expected", true}});
}

}  // namespace ridge::report
