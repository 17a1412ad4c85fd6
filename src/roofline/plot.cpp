// The roofline as one SVG file: log-log, FLOP per byte to the right, FLOP/s upwards.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "roofline/analyse.h"
#include "roofline/numbers.h"

namespace ridge::roofline {
namespace {

constexpr double kWidth = 760, kHeight = 460, kLeft = 76, kRight = 24, kTop = 40, kBottom = 56;

struct Scale {
  double low = 0, high = 1;  // powers of ten
  double from = 0, to = 1;   // in the drawing
  [[nodiscard]] double at(double value) const { return from + (std::log10(value) - low) / (high - low) * (to - from); }
};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return result;
}

class Drawing {
 public:
  explicit Drawing(const record::RooflineReport& report) : report_(report) {
    double peak = 0, bandwidth = 0;
    for (const record::RooflineAxis& a : report.axes)
      (a.unit == "B/s" ? bandwidth : peak) = std::max(a.unit == "B/s" ? bandwidth : peak, a.peak);
    x_ = {std::floor(std::log10(std::min(report.ridge, positive(report.intensity)) / 20)),
          std::ceil(std::log10(std::max(report.ridge, positive(report.intensity)) * 5)), kLeft, kWidth - kRight};
    y_ = {std::floor(std::log10(bandwidth * std::pow(10, x_.low) / 2)), std::ceil(std::log10(peak * 1.5)),
          kHeight - kBottom, kTop};
  }

  std::string str() {
    grid();
    roofs();
    problem();
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
               "role=\"img\">\n"
               "<title>{2} on {3}</title>\n<desc>{4:.2f} FLOP per byte, bound by {5}; nothing is faster than "
               "{6}.</desc>\n"
               "<style>text{{font:12.5px "
               "system-ui,sans-serif;fill:#333}}.g{{stroke:#ddd}}.r{{stroke:#1f5fa8;stroke-width:2;"
               "fill:none}}.m{{stroke:#2a7f4f;stroke-width:2;fill:none}}.t{{stroke:#b5471b;stroke-dasharray:5 "
               "4}}.p{{fill:#b5471b}}"
               "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
               kWidth, kHeight, escaped(report_.label), escaped(report_.on), report_.intensity, escaped(report_.bound),
               time_text(report_.bound_time)) +
           body_ + "</svg>\n";
  }

 private:
  static double positive(double value) { return value > 0 ? value : 1.0; }

  void line(double x1, double y1, double x2, double y2, const char* style) {
    body_ += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", style, x1,
                         y1, x2, y2);
  }
  void text(double x, double y, const std::string& words, const char* anchor = "start") {
    body_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(words));
  }

  void grid() {
    text(kLeft, 22, report_.label + " on " + report_.on);
    for (double power = x_.low; power <= x_.high; ++power) {
      const double x = x_.at(std::pow(10, power));
      line(x, kTop, x, kHeight - kBottom, "g");
      text(x, kHeight - kBottom + 18, fmt::format("{:g}", std::pow(10, power)), "middle");
    }
    for (double power = y_.low; power <= y_.high; ++power) {
      const double y = y_.at(std::pow(10, power));
      line(kLeft, y, kWidth - kRight, y, "g");
      text(kLeft - 6, y + 4,
           fmt::format("{:g} {}", std::pow(10, power - (power >= 12 ? 12 : 9)), power >= 12 ? "T" : "G"), "end");
    }
    text((kLeft + kWidth - kRight) / 2, kHeight - 14, "FLOP per byte of " + memory_name(), "middle");
    text(8, 22, "FLOP/s");
  }

  std::string memory_name() const {
    for (const record::RooflineAxis& a : report_.axes) {
      if (a.unit == "B/s") return a.name;
    }
    return "memory";
  }

  double roof() const {
    double highest = 0;
    for (const record::RooflineAxis& a : report_.axes) highest = std::max(highest, a.unit == "B/s" ? 0 : a.peak);
    return highest;
  }

  void roofs() {
    const double left = std::pow(10, x_.low), right = std::pow(10, x_.high);
    int number = 0;
    for (const record::RooflineAxis& a : report_.axes) {
      const std::string label = a.name + " " + rate_text(a.peak, a.unit) + (a.measured ? " measured" : "");
      if (a.unit == "B/s") {
        const double meets = std::min(roof() / a.peak, right), floor = std::max(left, std::pow(10, y_.low) / a.peak);
        line(x_.at(floor), y_.at(a.peak * floor), x_.at(meets), y_.at(a.peak * meets), "m");
        // The outermost roof is the lowest and has its name below; the others theirs above, so that names keep apart.
        const bool lowest = number++ == 0;
        const double middle = std::sqrt(floor * meets), x = x_.at(middle), y = y_.at(a.peak * middle);
        text(lowest ? x + 10 : x - 8, lowest ? y + 16 : y - 8, label, lowest ? "start" : "end");
      } else {
        line(x_.at(left), y_.at(a.peak), x_.at(right), y_.at(a.peak), "r");
        text(kWidth - kRight - 4, y_.at(a.peak) - 6, label, "end");
      }
    }
  }

  void problem() {
    if (!(report_.intensity > 0)) return;
    const double x = x_.at(report_.intensity);
    const double target = report_.flop / report_.target_latency, low = std::pow(10, y_.low);
    line(x, y_.at(std::max(low, report_.flop / report_.bound_time)), x, kHeight - kBottom, "t");
    if (target > low) {
      body_ +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\" fill=\"none\" class=\"t\"/>\n", x, y_.at(target));
      text(x - 12, y_.at(target) + 22, "target " + rate_text(target, "FLOP/s"), "end");
    }
    if (report_.latency > 0 && report_.flop / report_.latency > low) {
      const double reached = report_.flop / report_.latency;
      body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" class=\"p\"/>\n", x, y_.at(reached));
      text(x - 12, y_.at(reached) + 38,
           fmt::format("{}, {:.1f} %", rate_text(reached, "FLOP/s"), 100 * report_.utilisation), "end");
    }
  }

  const record::RooflineReport& report_;
  Scale x_, y_;
  std::string body_;
};

}  // namespace

std::string to_svg(const record::RooflineReport& report) { return Drawing(report).str(); }

}  // namespace ridge::roofline
