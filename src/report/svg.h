// Drawings as inline SVG text. Colours, strokes and fonts are classes of page.css, so that light, dark and print share
// one drawing; every series has a shape of its own beside its colour.
//
// Nothing with a coordinate that is not finite is drawn: a NaN latency costs its mark, never the page.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::report {

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  [[nodiscard]] bool overlaps(const Box& other) const;
  [[nodiscard]] bool inside(const Box& outer) const;
};

enum class Marker { kCircle, kSquare, kDiamond, kTriangle, kCross };
enum class Anchor { kStart, kMiddle, kEnd };

inline constexpr double kFontSize = 12.5;  // of text in a drawing, in its own units; page.css says the same
// A safe estimate of how wide `text` comes out.
double text_width(std::string_view text);

class Svg {
 public:
  // `id` must be unique in the page and an XML name. The description says in words what the drawing shows.
  Svg(std::string_view id, double width, double height, std::string_view title, std::string_view description);

  void line(Point from, Point to, std::string_view style);
  void polyline(std::span<const Point> points, std::string_view style);
  void polygon(std::span<const Point> points, std::string_view style);
  void rect(const Box& box, std::string_view style, std::string_view tooltip = {});
  void marker(Marker shape, Point at, double radius, std::string_view style, std::string_view tooltip = {});
  void text(Point at, std::string_view words, std::string_view style = "t", Anchor anchor = Anchor::kStart);

  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] double height() const { return height_; }
  [[nodiscard]] std::string str() const;

 private:
  std::string head_, body_;
  double width_, height_;
};

// Finds room for labels so that they cover neither each other nor what they were told to keep clear of, and stay inside
// the area.
class Labels {
 public:
  explicit Labels(Box area) : area_(area) {}
  void keep_clear(const Box& box) { taken_.push_back(box); }
  void keep_clear(Point from, Point to, double margin = 3);  // of a line
  // Tries around the point at the distance `gap`, then further away up to `reach`; from further away a thin line leads
  // to the point. False: no room, nothing drawn.
  bool place(Svg& svg, Point at, std::string_view words, std::string_view style, double gap = 7, double reach = 7);
  // Beside a line, as near to its end as there is room.
  bool place_along(Svg& svg, Point from, Point to, std::string_view words, std::string_view style, double gap = 5);

 private:
  [[nodiscard]] bool is_free(const Box& box) const;
  [[nodiscard]] bool is_free(Point from, Point to) const;

  Box area_;
  std::vector<Box> taken_;
};

// A small drawing of one mark, for a legend.
struct LegendEntry {
  Marker shape = Marker::kCircle;
  std::string style;
  std::string words;
  bool as_line = false;  // a line of this style instead of a mark
};
std::string legend(std::span<const LegendEntry> entries);

}  // namespace ridge::report
