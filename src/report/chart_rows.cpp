// Charts made of rows: forest plot, sessions, and the bars of sweep and time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/axes.h"
#include "report/charts.h"
#include "report/numbers.h"
#include "report/words.h"

namespace ridge::report {
namespace {

constexpr double kWidth = 452;

// Small differences read best as percentages, large ones as multiples.
TickText ratio_tick(const Scale& scale) {
  if (scale.high / scale.low > 1.8) return [](double v) { return plain(v) + "×"; };
  return [](double v) {
    const double gain = std::round((v - 1) * 1e6) / 1e6;
    return fmt::format("{}{}", gain < 0 ? "−" : gain > 0 ? "+" : "", plain_percent(std::abs(gain)));
  };
}

void draw_reference(Svg& svg, const Frame& frame, double value, std::string_view style) {
  const double x = frame.x(value);
  if (x < frame.area.x || x > frame.area.x + frame.area.width) return;
  svg.line({x, frame.area.y}, {x, frame.area.y + frame.area.height}, style);
}

// One row of the forest: key, interval, value. `small`: differences as percentages.
void draw_effect(Svg& svg, const Frame& frame, const ForestRow& row, double y, bool small) {
  const auto clamp = [&](double value) { return std::clamp(value, frame.x.low, frame.x.high); };
  const record::Effect& effect = row.effect;
  const char* style = row.strong ? "t b" : "t";
  svg.text({frame.area.x - 8, y + 4}, row.key, style, Anchor::kEnd);
  svg.text({frame.area.x + frame.area.width + 10, y + 4},
           small ? gain_text(effect.ratio - 1) : ratio_text(effect.ratio), style);
  svg.text({kWidth - 4, y + 4}, small ? gain_interval_text(effect) : interval_text(effect), "t m", Anchor::kEnd);
  svg.line({frame.area.x, y}, {frame.area.x + frame.area.width, y}, "grid");
  svg.line({frame.x(clamp(effect.low)), y}, {frame.x(clamp(effect.high)), y},
           row.strong ? "whisker-total" : "whisker-good");
  svg.marker(row.strong ? Marker::kDiamond : Marker::kCircle, {frame.x(clamp(effect.ratio)), y}, 4.5,
             row.strong ? "s-total" : "s-good",
             fmt::format("{}: {} ({})", row.label, ratio_text(effect.ratio), interval_text(effect)));
}

struct SessionMark {
  Marker shape;
  const char* style;
  const char* words;
};

SessionMark mark_of(const record::SessionRatios& session) {
  if (session.voided) return {Marker::kCross, "s-void", "voided"};
  if (session.role == "screen") return {Marker::kDiamond, "s-rejected", "screening, not counted"};
  return {Marker::kCircle, "s-good", "counted"};
}

double value_of(const record::SessionRatios& session, const std::string& label) {
  if (label.empty()) return std::exp(session.suite);
  const auto found = session.shapes.find(label);
  return found == session.shapes.end() ? NAN : std::exp(found->second);
}

}  // namespace

std::string forest_chart(std::string_view id, std::string_view title, std::span<const ForestRow> rows) {
  if (rows.empty()) return {};
  Extent extent;
  extent.add(1);
  for (const ForestRow& row : rows) {
    extent.add(row.effect.ratio);
    for (const double value : {row.effect.low, row.effect.high}) {
      if (value > row.effect.ratio / 4 && value < row.effect.ratio * 4) extent.add(value);
    }
  }
  const double row_height = 23;
  const bool small = extent.high / extent.low <= 1.8;
  const Box area{38, 8, small ? 180.0 : 212.0, row_height * static_cast<double>(rows.size()) + 4};
  const Frame frame{area, log_scale(extent, area.x + 6, area.x + area.width - 6, 0.03), {}};
  Svg svg(id, kWidth, area.y + area.height + 42, title,
          fmt::format("{} rows; the first: {} {}. The table of shapes has every value.", rows.size(),
                      rows.front().label, ratio_text(rows.front().effect.ratio)));
  frame.draw_x(svg, ticks(frame.x, small ? 4 : 7), ratio_tick(frame.x), "speed-up (dark line: no difference)");
  draw_reference(svg, frame, 1.0, "zero");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    draw_effect(svg, frame, rows[i], area.y + 13 + row_height * static_cast<double>(i), small);
  }
  return svg.str();
}

std::string sessions_chart(std::string_view id, std::string_view title, const record::ReportTrial& trial,
                           std::span<const record::ReportShape> shapes, double threshold, std::string_view axis_title) {
  std::vector<std::pair<std::string, std::string>> rows = {{"all", ""}};  // words, label
  for (const auto& shape : shapes) {
    const bool seen = std::any_of(trial.sessions.begin(), trial.sessions.end(),
                                  [&](const auto& session) { return session.shapes.contains(shape.label); });
    if (seen) rows.emplace_back(shape.key, shape.label);
  }
  Extent extent;
  extent.add(1);
  bool any = false;
  for (const auto& session : trial.sessions) {
    for (const auto& row : rows) {
      any = any || std::isfinite(value_of(session, row.second));
      extent.add(value_of(session, row.second));
    }
  }
  if (!any) return {};
  if (extent.high < 1 + 4 * threshold) extent.add(1 + 1.2 * threshold);
  const double row_height = 19;
  const Box area{38, 8, 404, row_height * static_cast<double>(rows.size()) + 6};
  const Frame frame{area, log_scale(extent, area.x, area.x + area.width, 0.04), {}};
  Svg svg(id, kWidth, area.y + area.height + 42, title,
          fmt::format("One dot per session; {} sessions, a row for all shapes together and one for each.",
                      trial.sessions.size()));
  frame.draw_x(svg, ticks(frame.x, 6), ratio_tick(frame.x), axis_title);
  draw_reference(svg, frame, 1.0, "zero");
  if (threshold > 0) draw_reference(svg, frame, 1 + threshold, "threshold");
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double y = area.y + 12 + row_height * static_cast<double>(i);
    svg.text({area.x - 8, y + 4}, rows[i].first, rows[i].second.empty() ? "t b" : "t", Anchor::kEnd);
    svg.line({area.x, y}, {area.x + area.width, y}, "grid");
    for (const auto& session : trial.sessions) {
      const SessionMark mark = mark_of(session);
      const double value = value_of(session, rows[i].second);
      svg.marker(mark.shape, {frame.x(value), y}, 3.6, mark.style,
                 i > 0 ? "" : fmt::format("session {} ({}): {}", session.index, mark.words, gain_text(value - 1)));
      const bool listed =
          std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return e.words == mark.words; });
      if (!listed) entries.push_back({mark.shape, mark.style, mark.words});
    }
  }
  if (threshold > 0) entries.push_back({Marker::kCircle, "threshold", "gain that must be exceeded", true});
  return svg.str() + legend(entries);
}

std::string sweep_chart(std::string_view id, const record::ReportRound& round) {
  std::vector<const record::ScreenRow*> rows;
  for (const auto& row : round.sweep) {
    if (row.outcome == record::Outcome::kPass && std::isfinite(row.score)) rows.push_back(&row);
  }
  if (rows.empty()) return {};
  std::stable_sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->score > b->score; });
  Extent extent;
  for (const auto* row : rows) extent.add(row->score);
  const Box area{50, 10, 392, 130};
  const Scale x{0, static_cast<double>(rows.size() + 1), area.x, area.x + area.width, false};
  const Frame frame{area, x, linear_scale(extent, area.y + area.height, area.y, 0.1)};
  Svg svg(id, kWidth, 184, "Configurations of the sweep, best first",
          fmt::format("{} usable configurations of {}; the best has a score of {}.", rows.size(), round.sweep.size(),
                      percent_text(rows.front()->score)));
  std::vector<double> ranks;
  for (const double value : ticks(x, 10)) {
    if (value >= 1 && value == std::floor(value) && value <= static_cast<double>(rows.size())) ranks.push_back(value);
  }
  frame.draw_x(
      svg, ranks, [](double v) { return fmt::format("{:.0f}", v); }, "configuration, by rank");
  frame.draw_y(svg, ticks(frame.y, 5), percent_text, "");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool chosen = rows[i]->candidate == round.chosen;
    std::vector<std::string> values;
    for (const auto& [name, value] : rows[i]->defines) values.push_back(fmt::format("{}={}", name, value));
    svg.marker(chosen ? Marker::kSquare : Marker::kCircle, frame.at(static_cast<double>(i + 1), rows[i]->score),
               chosen ? 5 : 3.4, chosen ? "s-total" : "s-base",
               fmt::format("{}: {}", fmt::join(values, " "), percent_text(rows[i]->score)));
  }
  const std::vector<LegendEntry> entries = {{Marker::kCircle, "s-base", "share of the roofline, one quick look"},
                                            {Marker::kSquare, "s-total", "chosen, then measured properly"}};
  return svg.str() + legend(entries);
}

std::string time_chart(const Model& model) {
  double total = 0;
  for (const auto& part : model.time) total += part.seconds;
  if (!(total > 0)) return {};
  Svg svg("time", kWidth, 34, "Where the time went", "Shares of the active time; the table has every value.");
  double x = 6;
  const double width = kWidth - 12;
  for (std::size_t i = 0; i < model.time.size(); ++i) {
    const double w = width * model.time[i].seconds / total;
    const std::string share = percent_text(model.time[i].seconds / total);
    svg.rect({x, 5, w, 24}, fmt::format("part p{}", i % 8),
             fmt::format("{}: {}", activity_words(model.time[i].activity), share));
    if (w > text_width(share) + 8) svg.text({x + w / 2, 21}, share, fmt::format("t part-t{}", i % 8), Anchor::kMiddle);
    x += w;
  }
  return svg.str();
}

}  // namespace ridge::report
