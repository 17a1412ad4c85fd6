// Rounds against shapes: what each measured round did to the speed of each shape.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/axes.h"
#include "report/charts.h"
#include "report/numbers.h"
#include "report/ratios.h"
#include "report/words.h"

namespace ridge::report {
namespace {

constexpr double kRowHeight = 20;
constexpr int kSteps = 4;  // of colour, in each direction

// The ratio of one shape in one round: the decision's, else the middle of what the sessions saw; NaN without either.
double shape_ratio(const record::ReportRound& round, const std::string& label) {
  if (round.decision) {
    for (const record::Effect& effect : round.decision->effects)
      if (effect.label == label) return effect.ratio;
  }
  std::vector<double> seen;
  if (!round.trials.empty()) {
    for (const record::SessionRatios& session : round.trials.back().sessions) {
      const auto found = session.shapes.find(label);
      if (!session.voided && found != session.shapes.end() && std::isfinite(found->second))
        seen.push_back(found->second);
    }
  }
  if (seen.empty()) return kNan;
  std::ranges::nth_element(seen, seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2));
  return std::exp(seen[seen.size() / 2]);
}

struct HeatColumn {
  const record::ReportRound* round;
  std::vector<double> ratios;  // by shape
};

std::vector<HeatColumn> heat_columns(const Model& model, std::int64_t first, std::int64_t last) {
  std::vector<HeatColumn> columns;
  for (const record::ReportRound& round : model.rounds) {
    if (round.round < first || round.round > last) continue;
    HeatColumn column{&round, {}};
    for (const record::ReportShape& shape : model.shapes) column.ratios.push_back(shape_ratio(round, shape.label));
    if (std::ranges::any_of(column.ratios, [](double ratio) { return std::isfinite(ratio); }))
      columns.push_back(std::move(column));
  }
  return columns;
}

// -kSteps..kSteps: a colour for each step, full at `full`, a log ratio. By its square root, so that the small gains at
// the end of a campaign are seen beside the large ones at its start.
int heat_step(double ratio, double full) {
  const double log_ratio = std::log(ratio);
  const auto step = static_cast<int>(std::lround(std::sqrt(std::abs(log_ratio) / full) * kSteps));
  return std::min(step, kSteps) * (log_ratio < 0 ? -1 : 1);
}

// The gain at which a step is reached.
double heat_gain(double step, double full) {
  const double part = step / kSteps;
  return std::expm1(full * part * std::abs(part));
}

std::string heat_class(int step) { return fmt::format("h{}{}", step < 0 ? "m" : "p", std::abs(step)); }

// Full colour at the ninth decile, so that one round of a large gain does not make all others pale.
double full_colour(const std::vector<HeatColumn>& columns) {
  std::vector<double> sizes;
  for (const HeatColumn& column : columns)
    for (const double ratio : column.ratios)
      if (std::isfinite(ratio) && ratio > 0) sizes.push_back(std::abs(std::log(ratio)));
  if (sizes.empty()) return 0.02;
  const std::size_t at = sizes.size() * 9 / 10;
  std::ranges::nth_element(sizes, sizes.begin() + static_cast<std::ptrdiff_t>(at));
  return std::max(sizes[at], 0.02);
}

void draw_heat_column(Svg& svg, const Model& model, const HeatColumn& column, const Box& area, double x, double width,
                      double full) {
  for (std::size_t i = 0; i < model.shapes.size(); ++i) {
    const double ratio = column.ratios[i], y = area.y + kRowHeight * static_cast<double>(i);
    const Box cell{x, y, std::max(width - 1, 0.8), kRowHeight - 1};
    if (!std::isfinite(ratio) || !(ratio > 0)) {
      svg.rect(cell, "h-none");
      continue;
    }
    const int step = heat_step(ratio, full);
    svg.rect(cell, heat_class(step),
             fmt::format("round {}, {}: {} ({})", column.round->round, model.shapes[i].label, gain_text(ratio - 1),
                         round_state(*column.round)));
    // The sign beside the colour, where there is room for it.
    if (width >= 11 && step != 0)
      svg.text({x + width / 2, y + 14}, step > 0 ? "+" : "−", std::abs(step) > 2 ? "t heat-t" : "t", Anchor::kMiddle);
  }
}

std::string heat_legend(double full) {
  std::string html = "<ul class=\"legend\">";
  for (const int step : {-kSteps, -kSteps / 2, 0, kSteps / 2, kSteps}) {
    const std::string words = step == 0         ? "within " + plain_percent(heat_gain(0.5, full))
                              : step == -kSteps ? gain_text(heat_gain(step, full)) + " or less"
                              : step == kSteps  ? gain_text(heat_gain(step, full)) + " or more"
                                                : gain_text(heat_gain(step, full));
    html += fmt::format(
        "<li><svg class=\"key\" viewBox=\"0 0 22 16\" aria-hidden=\"true\"><rect class=\"{}\" x=\"3\" y=\"2\" "
        "width=\"16\" height=\"12\"/></svg>{}</li>",
        heat_class(step), words);
  }
  return html + "<li>mark above: accepted</li></ul>\n";
}

}  // namespace

std::string heat_map(const Model& model, std::int64_t first_round, std::int64_t last_round) {
  const std::vector<HeatColumn> columns = heat_columns(model, first_round, last_round);
  if (columns.empty() || model.shapes.empty()) return {};
  const double full = full_colour(columns);
  const Box area{38, 16, 560, kRowHeight * static_cast<double>(model.shapes.size())};
  const double width = std::min(area.width / static_cast<double>(columns.size()), 28.0);
  Svg svg("heat", area.x + area.width + 6, area.y + area.height + 34, "Gain of every shape in every round",
          fmt::format("{} measured rounds by {} shapes. Each round's page has the numbers.", columns.size(),
                      model.shapes.size()));
  for (std::size_t i = 0; i < model.shapes.size(); ++i)
    svg.text({area.x - 8, area.y + kRowHeight * static_cast<double>(i) + 14}, model.shapes[i].key, "t", Anchor::kEnd);
  double labelled = -100;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const double x = area.x + width * static_cast<double>(i);
    draw_heat_column(svg, model, columns[i], area, x, width, full);
    if (columns[i].round->state == record::RoundState::kAccepted)
      svg.marker(Marker::kCircle, {x + width / 2, area.y - 7}, std::min(3.5, width / 2), "s-good",
                 fmt::format("round {} was accepted", columns[i].round->round));
    if (x - labelled < 30) continue;
    svg.text({x + width / 2, area.y + area.height + 15}, std::to_string(columns[i].round->round), "t m",
             Anchor::kMiddle);
    labelled = x;
  }
  svg.text({area.x, area.y + area.height + 30}, "round; each against the incumbent of that time", "t m");
  return svg.str() + heat_legend(full);
}

}  // namespace ridge::report
