#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/axes.h"
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

// The ceiling that the recorded bounds were computed from: the one whose value the shapes of that bound imply, else the
// highest of the campaign's thread count.
const record::Ceiling* choose(const Model& model, std::string_view unit, std::string_view bound) {
  double implied = 0;
  for (const auto& shape : model.shapes) {
    if (shape.bound != bound || !(shape.bound_time > 0)) continue;
    implied = (bound == "compute" ? shape.cost.flop : shape.cost.bytes) / shape.bound_time;
  }
  const auto rank = [&](const record::Ceiling& ceiling) {
    const double threads = ceiling.threads == model.spec.protocol.threads ? 2 : 0;
    const double match = implied > 0 && std::abs(std::log(ceiling.value / implied)) < 0.01 ? 4 : 0;
    return match + threads + ceiling.value / (ceiling.value + 1e30);
  };
  const record::Ceiling* best = nullptr;
  for (const auto& ceiling : model.ceilings) {
    if (ceiling.name.ends_with("_warm")) continue;  // of a cache: no roof over memory
    if (ceiling.unit != unit || !(ceiling.value > 0) || !std::isfinite(ceiling.value)) continue;
    if (!best || rank(ceiling) > rank(*best)) best = &ceiling;
  }
  return best;
}

std::string ceiling_words(const record::Ceiling& ceiling) {
  return fmt::format("{} {}", rate_text(ceiling.value, ceiling.unit), ceiling.name);
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
  for (double share = 0; share <= 1; share += 0.02) {  // labels stay off the roof itself
    const double intensity = left * std::pow(right / left, share);
    const Point p = frame.at(intensity, roof.at(intensity));
    labels.keep_clear({p.x - 4, p.y - 3, 8, 6});
  }
  if (roof.compute && roof.at(right) == roof.compute->value) {
    const std::string words = ceiling_words(*roof.compute);
    const double y = frame.y(roof.compute->value) - 8;
    svg.text({frame.area.x + frame.area.width - 4, y}, words, "t roof-t", Anchor::kEnd);
    labels.keep_clear({frame.area.x + frame.area.width - text_width(words), y - 12, text_width(words), 16});
  }
}

void draw_shapes(Svg& svg, Labels& labels, const Frame& frame, const Model& model) {
  const auto mark = [&](const record::ReportShape& shape, double speed, bool best) {
    const Point at = frame.at(shape.intensity, speed);
    const std::string words =
        fmt::format("{} {}, {}: {}, {} of its bound", shape.key, shape.label, best ? "best" : "baseline",
                    flops_text(speed), percent_text(speed * shape.bound_time / shape.cost.flop));
    svg.marker(best ? Marker::kCircle : Marker::kSquare, at, 4.5, best ? "s-good" : "s-base", words);
    labels.keep_clear({at.x - 5, at.y - 5, 10, 10});
  };
  for (const auto& shape : model.shapes) {
    if (model.accepted > 0) {
      svg.line(frame.at(shape.intensity, speed_before(shape)), frame.at(shape.intensity, speed_after(shape)), "rise");
      mark(shape, speed_after(shape), true);
    }
    mark(shape, speed_before(shape), false);
  }
  for (const auto& shape : model.shapes) {
    labels.place(svg, frame.at(shape.intensity, speed_after(shape)), shape.key, "t");
  }
}

// Somewhere along the slope, where there is room.
void name_slope(Svg& svg, Labels& labels, const Frame& frame, const Model& model, const Roof& roof) {
  if (!roof.memory) return;
  for (const auto& shape : model.shapes) {
    const Point low = frame.at(shape.intensity, speed_before(shape)),
                high = frame.at(shape.intensity, speed_after(shape));
    labels.keep_clear({low.x - 3, high.y, 6, low.y - high.y});
  }
  for (double share = 0.02; share < 0.7; share += 0.02) {
    const double intensity = frame.x.low * std::pow(frame.x.high / frame.x.low, share);
    const double speed = roof.memory->value * intensity;
    if (speed > roof.at(intensity) * 1.001) break;
    if (labels.place(svg, frame.at(intensity, speed), ceiling_words(*roof.memory), "t roof-t", 10)) break;
  }
}

}  // namespace

std::string roofline_chart(const Model& model) {
  Extent intensity, speed;
  for (const auto& shape : model.shapes) {
    if (!(shape.intensity > 0)) continue;
    intensity.add(shape.intensity);
    speed.add(speed_before(shape));
    speed.add(speed_after(shape));
  }
  if (intensity.empty || speed.empty) return {};
  const Roof roof{choose(model, "FLOP/s", "compute"), choose(model, "B/s", "memory")};
  intensity.add(intensity.low / 4);
  intensity.add(intensity.high * 3);
  if (roof.compute && roof.memory) intensity.add(roof.compute->value / roof.memory->value / 2);
  for (const double at : {intensity.low, intensity.high}) {
    if (std::isfinite(roof.at(at))) speed.add(roof.at(at) * 1.35);
  }
  const Box area{46, 26, 396, 250};
  const Frame frame{area, log_scale(intensity, area.x, area.x + area.width, 0.0),
                    log_scale(speed, area.y + area.height, area.y, 0.06)};
  Svg svg(
      "roofline", 452, 318, "Roofline",
      fmt::format("Speed against intensity on logarithmic axes. Geometric mean {} before, {} after; {} of the measured "
                  "ceilings. The table of shapes has every value.",
                  flops_text(geomean_speed_before(model)), flops_text(geomean_speed_after(model)),
                  percent_text(geomean_fraction_after(model))));
  frame.draw_x(svg, ticks(frame.x, 8), plain, "intensity, FLOP per byte");
  frame.draw_y(
      svg, ticks(frame.y, 8), [](double v) { return plain(v / 1e9); }, "GFLOP/s");
  Labels labels(area);
  draw_roof(svg, labels, frame, roof);
  draw_shapes(svg, labels, frame, model);
  name_slope(svg, labels, frame, model, roof);
  std::vector<LegendEntry> entries = {{Marker::kSquare, "s-base", "baseline"}};
  if (model.accepted > 0) entries.push_back({Marker::kCircle, "s-good", "best kernel"});
  entries.push_back({Marker::kCircle, "roof", "measured ceiling", true});
  return svg.str() + legend(entries);
}

}  // namespace ridge::report
