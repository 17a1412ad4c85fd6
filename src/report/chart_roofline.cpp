#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "report/axes.h"
#include "report/ceilings.h"
#include "report/charts.h"
#include "report/numbers.h"
#include "report/words.h"

namespace ridge::report {
namespace {

struct Roof {
  const record::Ceiling* compute = nullptr;
  const record::Ceiling* memory = nullptr;
  [[nodiscard]] double at(double intensity) const {
    const double flat = compute ? compute->value : INFINITY;
    return memory ? std::min(flat, memory->value * intensity) : flat;
  }
};

std::string ceiling_value(const Model& model, const record::Ceiling& ceiling) {
  const bool speed = ceiling.unit == "FLOP/s";
  return speed ? flops_unit(model).text(ceiling.value) : rate_text(ceiling.value, ceiling.unit);
}

// With its name, or its value alone where there is no room for more.
void name_ceiling(Svg& svg, Labels& labels, const Model& model, const record::Ceiling& ceiling, Point from, Point to,
                  double gap) {
  const std::string value = ceiling_value(model, ceiling);
  if (labels.place_along(svg, from, to, value + " " + ceiling.name, "t roof-t", gap)) return;
  labels.place_along(svg, from, to, value, "t roof-t", gap);
}

// The cited peak in FLOP/s, when the campaign's targets name one.
std::optional<CitedPeak> cited_speed(const Model& model) {
  for (const CitedPeak& peak : cited_peaks(model)) {
    if (peak.unit == "FLOP/s" && peak.value > 0) return peak;
  }
  return std::nullopt;
}

void draw_roof(Svg& svg, Labels& labels, const Frame& frame, const Roof& roof) {
  const double left = frame.x.low, right = frame.x.high;
  std::vector<Point> line = {frame.at(left, roof.at(left))};
  if (roof.compute && roof.memory) {
    const double knee = roof.compute->value / roof.memory->value;
    if (knee > left && knee < right) line.push_back(frame.at(knee, roof.compute->value));
  }
  line.push_back(frame.at(right, roof.at(right)));
  std::vector<Point> above = line;
  above.push_back({frame.area.x + frame.area.width, frame.area.y});
  above.push_back({frame.area.x, frame.area.y});
  svg.polygon(above, "beyond");
  svg.polyline(line, "roof");
  for (std::size_t i = 1; i < line.size(); ++i) labels.keep_clear(line[i - 1], line[i]);  // labels stay off the roof
}

void draw_cited(Svg& svg, Labels& labels, const Frame& frame, const std::optional<CitedPeak>& peak) {
  if (!peak) return;
  const Point left = frame.at(frame.x.low, peak->value), right = frame.at(frame.x.high, peak->value);
  svg.line(left, right, "cited");
  labels.keep_clear(left, right);
}

// After everything else has its place: beside their lines, where there is room.
void name_roofs(Svg& svg, Labels& labels, const Frame& frame, const Model& model, const Roof& roof,
                const std::optional<CitedPeak>& peak) {
  if (peak) {
    labels.place_along(svg, frame.at(frame.x.low, peak->value), frame.at(frame.x.high, peak->value),
                       fmt::format("{} cited", flops_unit(model).text(peak->value)), "t cited-t");
  }
  const double left = frame.x.low, right = frame.x.high;
  const double knee = roof.compute && roof.memory ? roof.compute->value / roof.memory->value : left;
  if (roof.compute && knee < right) {
    name_ceiling(svg, labels, model, *roof.compute, frame.at(std::max(left, knee), roof.compute->value),
                 frame.at(right, roof.compute->value), 5);
  }
  if (roof.memory && (!roof.compute || knee > left)) {
    const double end = roof.compute ? std::min(knee, right) : right;
    name_ceiling(svg, labels, model, *roof.memory, frame.at(end, roof.memory->value * end),
                 frame.at(left, roof.memory->value * left), 8);
  }
}

void draw_shapes(Svg& svg, Labels& labels, const Frame& frame, const Model& model) {
  const SpeedUnit unit = flops_unit(model);
  const auto mark = [&](const record::ReportShape& shape, double speed, bool best) {
    const Point at = frame.at(shape.intensity, speed);
    const std::string words =
        fmt::format("{} {}, {}: {}, {} of its bound", shape.key, shape.label, best ? "best" : "baseline",
                    unit.text(speed), percent_text(speed * shape.bound_time / shape.cost.flop));
    svg.marker(best ? Marker::kCircle : Marker::kSquare, at, 4.5, best ? "s-good" : "s-base", words);
    labels.keep_clear({at.x - 5, at.y - 5, 10, 10});
  };
  for (const auto& shape : model.shapes) {
    if (model.accepted > 0) {
      const Point low = frame.at(shape.intensity, flops_before(shape));
      const Point high = frame.at(shape.intensity, flops_after(shape));
      svg.line(low, high, "rise");
      labels.keep_clear(low, high, 2);
      mark(shape, flops_after(shape), true);
    }
    mark(shape, flops_before(shape), false);
  }
  for (const auto& shape : model.shapes) {
    labels.place(svg, frame.at(shape.intensity, flops_after(shape)), shape.key, "t", 7, 56);
  }
}

}  // namespace

std::string roofline_chart(const Model& model) {
  Extent intensity, speed;
  for (const auto& shape : model.shapes) {
    if (!(shape.intensity > 0)) continue;
    intensity.add(shape.intensity);
    speed.add(flops_before(shape));
    speed.add(flops_after(shape));
  }
  if (intensity.empty || speed.empty) return {};
  const Roof roof{measured_ceiling(model, "compute"), measured_ceiling(model, "memory")};
  const std::optional<CitedPeak> cited = cited_speed(model);
  const SpeedUnit unit = flops_unit(model);
  intensity.add(intensity.low / 4);
  intensity.add(intensity.high * 3);
  if (roof.compute && roof.memory) intensity.add(roof.compute->value / roof.memory->value / 2);
  for (const double at : {intensity.low, intensity.high}) {
    if (std::isfinite(roof.at(at))) speed.add(roof.at(at) * 1.35);
  }
  if (cited) speed.add(cited->value * 1.35);
  const Box area{46, 26, 396, 250};
  const Frame frame{area, log_scale(intensity, area.x, area.x + area.width, 0.0),
                    log_scale(speed, area.y + area.height, area.y, 0.06)};
  Svg svg(
      "roofline", 452, 318, "Roofline",
      fmt::format("Speed against intensity on logarithmic axes. Geometric mean {} before, {} after; {} of the measured "
                  "ceilings. The table of shapes has every value.",
                  speed_unit(model).text(geomean_speed_before(model)),
                  speed_unit(model).text(geomean_speed_after(model)), percent_text(geomean_fraction_after(model))));
  frame.draw_x(svg, ticks(frame.x, 8), plain, "intensity, FLOP per byte");
  frame.draw_y(
      svg, ticks(frame.y, 8), [&](double v) { return plain(v / unit.scale); }, unit.name);
  Labels labels(area);
  draw_roof(svg, labels, frame, roof);
  draw_cited(svg, labels, frame, cited);
  draw_shapes(svg, labels, frame, model);
  name_roofs(svg, labels, frame, model, roof, cited);
  std::vector<LegendEntry> entries = {{Marker::kSquare, "s-base", "baseline"}};
  if (model.accepted > 0) entries.push_back({Marker::kCircle, "s-good", "best kernel"});
  entries.push_back({Marker::kCircle, "roof", "measured ceiling", true});
  if (cited) entries.push_back({Marker::kCircle, "cited", "peak its documents state (" + cited->metric + ")", true});
  return svg.str() + legend(entries);
}

}  // namespace ridge::report
