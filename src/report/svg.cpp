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

bool Labels::place(Svg& svg, Point at, std::string_view words, std::string_view style, double gap) {
  if (!finite(at)) return false;
  const double w = text_width(words), h = kFontSize, up = 0.8 * h;
  const std::array<Point, 8> corners = {{{at.x + gap, at.y - h / 2},
                                         {at.x - gap - w, at.y - h / 2},
                                         {at.x - w / 2, at.y - gap - h},
                                         {at.x - w / 2, at.y + gap},
                                         {at.x + gap * 0.7, at.y - gap * 0.7 - h},
                                         {at.x - gap * 0.7 - w, at.y - gap * 0.7 - h},
                                         {at.x + gap * 0.7, at.y + gap * 0.7},
                                         {at.x - gap * 0.7 - w, at.y + gap * 0.7}}};
  for (const Point& corner : corners) {
    const Box box{corner.x, corner.y, w, h};
    const bool covered =
        std::any_of(taken_.begin(), taken_.end(), [&](const Box& other) { return box.overlaps(other); });
    if (covered || !box.inside(area_)) continue;
    taken_.push_back(box);
    svg.text({corner.x, corner.y + up}, words, style);
    return true;
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
