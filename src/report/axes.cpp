#include "report/axes.h"

#include <algorithm>
#include <cmath>

namespace ridge::report {
namespace {

void spread(double& low, double& high, double margin) {
  const double length = high - low;
  low -= margin * length;
  high += margin * length;
}

std::vector<double> multiples(double low, double high, double step) {
  std::vector<double> values;
  const double first = std::ceil(low / step - 1e-9);
  for (double i = first; i * step <= high + 1e-9 * step && values.size() < 100; i += 1) values.push_back(i * step);
  return values;
}

double nice_step(double length, int count) {
  const double raw = length / std::max(1, count);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * 0.999) return factor * power;
  }
  return 10 * power;
}

std::vector<double> decades(double low, double high, std::span<const double> factors, int stride) {
  std::vector<double> values;
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::ceil(std::log10(high)));
  for (int e = first; e <= last; ++e) {
    if ((e % stride + stride) % stride != 0) continue;
    for (const double factor : factors) {
      const double value = factor * std::pow(10.0, e);
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) values.push_back(value);
    }
  }
  return values;
}

// As many digits of every decade as `count` allows; when even one is too many, every second, third ... decade.
std::vector<double> log_ticks(double low, double high, int count) {
  static const std::vector<double> kDigits[] = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 5, 7}, {1, 2, 5}, {1, 3}};
  for (const auto& digits : kDigits) {
    std::vector<double> values = decades(low, high, digits, 1);
    if (static_cast<int>(values.size()) <= count) return values;
  }
  constexpr double kOne[] = {1};
  std::vector<double> values = decades(low, high, kOne, 1);
  for (int stride = 2; static_cast<int>(values.size()) > count && stride < 20; ++stride) {
    values = decades(low, high, kOne, stride);
  }
  return values;
}

}  // namespace

void Extent::add(double value) {
  if (!std::isfinite(value)) return;
  low = empty ? value : std::min(low, value);
  high = empty ? value : std::max(high, value);
  empty = false;
}

double Scale::operator()(double value) const {
  const double position = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return from + (to - from) * position;
}

Scale linear_scale(const Extent& extent, double from, double to, double margin) {
  double low = extent.empty ? 0 : extent.low, high = extent.empty ? 1 : extent.high;
  if (high - low <= 1e-12 * std::max(std::abs(low), std::abs(high))) {
    const double room = low == 0 ? 1 : 0.1 * std::abs(low);
    low -= room;
    high += room;
  }
  spread(low, high, margin);
  return {low, high, from, to, false};
}

Scale log_scale(const Extent& extent, double from, double to, double margin) {
  if (extent.empty || extent.low <= 0) return {1, 10, from, to, true};
  double low = std::log(extent.low), high = std::log(extent.high);
  if (high - low < 1e-9) {
    low -= 0.1;
    high += 0.1;
  }
  spread(low, high, margin);
  return {std::exp(low), std::exp(high), from, to, true};
}

std::vector<double> ticks(const Scale& scale, int count) {
  if (scale.logarithmic && scale.high / scale.low >= 4) return log_ticks(scale.low, scale.high, count);
  std::vector<double> values = multiples(scale.low, scale.high, nice_step(scale.high - scale.low, count));
  if (scale.logarithmic) std::erase_if(values, [](double value) { return value <= 0; });
  return values;
}

void Frame::draw_x(Svg& svg, std::span<const double> values, const TickText& words, std::string_view title) const {
  const double bottom = area.y + area.height;
  double free_from = -1e9;
  for (const double value : values) {
    svg.line({x(value), area.y}, {x(value), bottom}, "grid");
    const double half = text_width(words(value)) / 2;
    const double centre = std::min(x(value), svg.width() - half);
    if (centre - half < free_from) continue;  // labels must not touch
    free_from = centre + half + 8;
    svg.text({centre, bottom + 16}, words(value), "t m", Anchor::kMiddle);
  }
  svg.line({area.x, bottom}, {area.x + area.width, bottom}, "axis");
  const double half = text_width(title) / 2;
  const double centre = std::clamp(area.x + area.width / 2, std::min(half, svg.width() / 2),
                                   std::max(svg.width() - half, svg.width() / 2));
  svg.text({centre, bottom + 34}, title, "t m", Anchor::kMiddle);
}

void Frame::draw_y(Svg& svg, std::span<const double> values, const TickText& words, std::string_view title) const {
  double free_below = 1e9;
  for (const double value : values) {
    svg.line({area.x, y(value)}, {area.x + area.width, y(value)}, "grid");
    if (y(value) + kFontSize > free_below) continue;
    free_below = y(value);
    svg.text({area.x - 6, y(value) + 4}, words(value), "t m", Anchor::kEnd);
  }
  svg.line({area.x, area.y}, {area.x, area.y + area.height}, "axis");
  if (!title.empty()) svg.text({2, area.y - 8}, title, "t m");
}

}  // namespace ridge::report
