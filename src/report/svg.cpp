#include "report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/escape.h"

namespace ridge::report {
namespace {

bool finite(Point p) { return std::isfinite(p.x) && std::isfinite(p.y); }

std::string points_text(std::span<const Point> points) {
  std::string text;
  for (const Point& p : points) {
    if (finite(p)) text += fmt::format("{}{:.1f},{:.1f}", text.empty() ? "" : " ", p.x, p.y);
  }
  return text;
}

std::string marker_text(Marker shape, Point p, double r) {
  switch (shape) {
    case Marker::kCircle: return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"", p.x, p.y, r);
    case Marker::kSquare:
      return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"", p.x - 0.9 * r,
                         p.y - 0.9 * r, 1.8 * r, 1.8 * r);
    case Marker::kDiamond: {
      const double d = 1.25 * r;
      return fmt::format("<polygon points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\"", p.x, p.y - d,
                         p.x + d, p.y, p.x, p.y + d, p.x - d, p.y);
    }
    case Marker::kTriangle: {
      const double d = 1.2 * r;
      return fmt::format("<polygon points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\"", p.x, p.y - d, p.x + d,
                         p.y + 0.8 * d, p.x - d, p.y + 0.8 * d);
    }
    case Marker::kCross: {
      const double d = 0.85 * r;
      return fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}M{:.1f} {:.1f}L{:.1f} {:.1f}\"", p.x - d, p.y - d,
                         p.x + d, p.y + d, p.x - d, p.y + d, p.x + d, p.y - d);
    }
  }
  return {};
}

const char* anchor_name(Anchor anchor) {
  return anchor == Anchor::kStart ? "start" : anchor == Anchor::kMiddle ? "middle" : "end";
}

}  // namespace

bool Box::overlaps(const Box& other) const {
  return x < other.x + other.width && other.x < x + width && y < other.y + other.height && other.y < y + height;
}

bool Box::inside(const Box& outer) const {
  return x >= outer.x && y >= outer.y && x + width <= outer.x + outer.width && y + height <= outer.y + outer.height;
}

double text_width(std::string_view text) { return 0.6 * kFontSize * static_cast<double>(length_utf8(text)); }

Svg::Svg(std::string_view id, double width, double height, std::string_view title, std::string_view description)
    : width_(width), height_(height) {
  head_ = fmt::format(
      "<svg class=\"chart\" role=\"img\" viewBox=\"0 0 {0:.0f} {1:.0f}\" aria-labelledby=\"{2}-title {2}-desc\">"
      "<title id=\"{2}-title\">{3}</title><desc id=\"{2}-desc\">{4}</desc>\n",
      width, height, id, escape_html(title), escape_html(description));
}

void Svg::line(Point from, Point to, std::string_view style) {
  if (!finite(from) || !finite(to)) return;
  body_ += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", style, from.x,
                       from.y, to.x, to.y);
}

void Svg::polyline(std::span<const Point> points, std::string_view style) {
  body_ += fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", style, points_text(points));
}

void Svg::polygon(std::span<const Point> points, std::string_view style) {
  body_ += fmt::format("<polygon class=\"{}\" points=\"{}\"/>\n", style, points_text(points));
}

void Svg::rect(const Box& box, std::string_view style, std::string_view tooltip) {
  if (!finite({box.x, box.y}) || !finite({box.width, box.height}) || box.width < 0 || box.height < 0) return;
  body_ += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"", style, box.x,
                       box.y, box.width, box.height);
  body_ += tooltip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escape_html(tooltip));
}

void Svg::marker(Marker shape, Point at, double radius, std::string_view style, std::string_view tooltip) {
  if (!finite(at) || !std::isfinite(radius)) return;
  const std::string drawn = fmt::format("{} class=\"{}\"/>", marker_text(shape, at, radius), style);
  if (tooltip.empty()) {
    body_ += drawn + "\n";
  } else {
    body_ += fmt::format("<g><title>{}</title>{}</g>\n", escape_html(tooltip), drawn);
  }
}

void Svg::text(Point at, std::string_view words, std::string_view style, Anchor anchor) {
  if (!finite(at)) return;
  body_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", style, at.x, at.y,
                       anchor_name(anchor), escape_html(words));
}

std::string Svg::str() const { return head_ + body_ + "</svg>\n"; }

// As boxes along it, no longer than twice the margin.
void Labels::keep_clear(Point from, Point to, double margin) {
  if (!finite(from) || !finite(to)) return;
  if (from.x == to.x || from.y == to.y) {
    return keep_clear({std::min(from.x, to.x) - margin, std::min(from.y, to.y) - margin,
                       std::abs(to.x - from.x) + 2 * margin, std::abs(to.y - from.y) + 2 * margin});
  }
  const int steps = 1 + static_cast<int>(std::hypot(to.x - from.x, to.y - from.y) / margin);
  for (int i = 0; i <= steps; ++i) {
    const double share = static_cast<double>(i) / steps;
    keep_clear(
        {from.x + share * (to.x - from.x) - margin, from.y + share * (to.y - from.y) - margin, 2 * margin, 2 * margin});
  }
}

bool Labels::is_free(const Box& box) const {
  return box.inside(area_) &&
         std::none_of(taken_.begin(), taken_.end(), [&](const Box& other) { return box.overlaps(other); });
}

bool Labels::is_free(Point from, Point to) const {
  for (double share = 0; share <= 1; share += 0.1) {
    const Point p{from.x + share * (to.x - from.x), from.y + share * (to.y - from.y)};
    if (!is_free(Box{p.x - 0.5, p.y - 0.5, 1, 1})) return false;
  }
  return true;
}

bool Labels::place(Svg& svg, Point at, std::string_view words, std::string_view style, double gap, double reach) {
  if (!finite(at)) return false;
  constexpr double kSlant = 0.7, kSteep = 0.92, kFlat = 0.38;
  constexpr std::array<Point, 16> kDirections = {{{1, 0},
                                                  {-1, 0},
                                                  {0, -1},
                                                  {0, 1},
                                                  {kSlant, -kSlant},
                                                  {-kSlant, -kSlant},
                                                  {kSlant, kSlant},
                                                  {-kSlant, kSlant},
                                                  {kFlat, -kSteep},
                                                  {-kFlat, -kSteep},
                                                  {kSteep, -kFlat},
                                                  {-kSteep, -kFlat},
                                                  {kFlat, kSteep},
                                                  {-kFlat, kSteep},
                                                  {kSteep, kFlat},
                                                  {-kSteep, kFlat}}};
  const double w = text_width(words), h = kFontSize, up = 0.8 * h;
  const auto edge = [](double centre, double direction, double distance, double size) {
    return centre + direction * distance - (direction < 0 ? size : direction == 0 ? size / 2 : 0);
  };
  for (double distance = gap; distance <= reach + 1e-9; distance += gap) {
    for (const Point& way : kDirections) {
      const Box box{edge(at.x, way.x, distance, w), edge(at.y, way.y, distance, h), w, h};
      if (!is_free(box)) continue;
      const bool near = distance < 1.5 * gap;
      // From the edge of the mark, a square of 10, to the edge of the label.
      const double clear = 6 / std::max(std::abs(way.x), std::abs(way.y));
      const Point start{at.x + clear * way.x, at.y + clear * way.y};
      const Point end{at.x + (distance - 1) * way.x, at.y + (distance - 1) * way.y};
      if (!near && !is_free(start, end)) continue;
      if (!near) {
        svg.line(start, end, "leader");
        keep_clear(start, end, 1);
      }
      taken_.push_back(box);
      svg.text({box.x, box.y + up}, words, style);
      return true;
    }
  }
  return false;
}

bool Labels::place_along(Svg& svg, Point from, Point to, std::string_view words, std::string_view style, double gap) {
  for (const double distance : {gap, 2 * gap}) {
    for (double share = 1; share >= 0; share -= 0.02) {
      const Point at{from.x + share * (to.x - from.x), from.y + share * (to.y - from.y)};
      if (place(svg, at, words, style, distance, distance)) return true;
    }
  }
  return false;
}

std::string legend(std::span<const LegendEntry> entries) {
  std::string html = "<ul class=\"legend\">";
  for (const LegendEntry& entry : entries) {
    const std::string mark =
        entry.as_line ? std::string("<path d=\"M1 8L21 8\"") : marker_text(entry.shape, {11, 8}, 4.5);
    html +=
        fmt::format("<li><svg class=\"key\" viewBox=\"0 0 22 16\" aria-hidden=\"true\">{} class=\"{}\"/></svg>{}</li>",
                    mark, entry.style, escape_html(entry.words));
  }
  return html + "</ul>\n";
}

}  // namespace ridge::report
