// Scales, ticks and the frame of a plot.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/svg.h"

namespace ridge::report {

// The smallest and largest of the finite values added.
struct Extent {
  double low = 0, high = 0;
  bool empty = true;
  void add(double value);
};

// Maps [low, high] to [from, to], linear or logarithmic.
struct Scale {
  double low = 0, high = 1, from = 0, to = 1;
  bool logarithmic = false;
  double operator()(double value) const;
};

// A scale over the extent with `margin` of its length free on both sides; always of positive length.
Scale linear_scale(const Extent& extent, double from, double to, double margin = 0.05);
// For positive extents; margin is of the length of the logarithm.
Scale log_scale(const Extent& extent, double from, double to, double margin = 0.05);

// Round values inside the scale, about `count` of them: steps of 1, 2 or 5, or round digits of every decade.
std::vector<double> ticks(const Scale& scale, int count);

using TickText = std::function<std::string(double)>;

// A plot area with its two scales. draw() makes grid, tick labels and axis titles.
struct Frame {
  Box area;
  Scale x, y;
  [[nodiscard]] Point at(double vx, double vy) const { return {x(vx), y(vy)}; }
  void draw_x(Svg& svg, std::span<const double> values, const TickText& words, std::string_view title) const;
  void draw_y(Svg& svg, std::span<const double> values, const TickText& words, std::string_view title) const;
};

}  // namespace ridge::report
