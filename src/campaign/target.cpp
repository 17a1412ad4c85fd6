#include "campaign/target.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

using record::RooflinePoint;
using record::Target;

struct Unit {
  std::string_view metric, unit;
  double scale;  // value in base units = number * scale
};
// The first unit of a metric is its default.
constexpr Unit kUnits[] = {
    {"hw_efficiency", "", 1.0},        {"hw_efficiency", "%", 0.01}, {"forward_tflops", "TFLOPS", 1e12},
    {"forward_tflops", "GFLOPS", 1e9}, {"speedup", "x", 1.0},
};

const Unit* find_unit(std::string_view metric, std::string_view unit) {
  for (const Unit& row : kUnits) {
    if (row.metric == metric && (unit.empty() || row.unit == unit)) return &row;
  }
  return nullptr;
}

Error refused(std::string_view text, std::string_view why) {
  return with_hint(invalid("performance target \"{}\": {}", text, why),
                   "write `metric op number unit [on all|any|geomean]`, for instance `hw_efficiency >= 90%`, "
                   "`forward_tflops >= 0.2 TFLOPS on all` or `speedup >= 8x`");
}

// Reads one grammar element after another; blanks between them do not matter.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}
  std::string_view word() {
    return take([](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '%'; });
  }
  std::string_view comparison() {
    return take([](char c) { return c == '<' || c == '>' || c == '='; });
  }
  std::optional<double> number() {
    skip();
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc()) return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }
  bool at_end() {
    skip();
    return text_.empty();
  }

 private:
  void skip() {
    while (!text_.empty() && std::isspace(static_cast<unsigned char>(text_.front())) != 0) text_.remove_prefix(1);
  }
  template <class Accept>
  std::string_view take(Accept accept) {
    skip();
    std::size_t n = 0;
    while (n < text_.size() && accept(text_[n])) ++n;
    const std::string_view taken = text_.substr(0, n);
    text_.remove_prefix(n);
    return taken;
  }
  std::string_view text_;
};

// 0 where there is no point, or one whose value is not positive and finite.
double geomean_over(const std::vector<RooflinePoint>& points, double (*value)(const RooflinePoint&)) {
  std::vector<double> values(points.size());
  std::transform(points.begin(), points.end(), values.begin(), value);
  const double mean = stats::geomean(values);
  return std::isfinite(mean) ? mean : 0.0;
}

double efficiency(const RooflinePoint& point) { return point.bound_time / point.latency; }
double flops(const RooflinePoint& point) { return point.cost.flop / point.latency; }

// The metric of every shape; empty when a shape has no counterpart in the baseline.
std::vector<double> metric_values(const Target& target, const std::vector<RooflinePoint>& best,
                                  const std::vector<RooflinePoint>& baseline) {
  std::vector<double> values;
  for (const RooflinePoint& point : best) {
    if (target.metric == "hw_efficiency") values.push_back(efficiency(point));
    if (target.metric == "forward_tflops") values.push_back(flops(point));
    if (target.metric == "speedup") {
      const auto same = [&](const RooflinePoint& other) { return other.label == point.label; };
      const auto found = std::find_if(baseline.begin(), baseline.end(), same);
      if (found == baseline.end()) return {};
      values.push_back(found->latency / point.latency);
    }
  }
  return values;
}

double aggregate(const std::vector<double>& values, std::string_view scope) {
  if (scope == "all") return *std::min_element(values.begin(), values.end());
  if (scope == "any") return *std::max_element(values.begin(), values.end());
  return stats::geomean(values);
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
  Scanner scanner(text);
  Target target;
  target.metric = scanner.word();
  if (find_unit(target.metric, "") == nullptr && find_unit(target.metric, "x") == nullptr) {
    return refused(text, fmt::format("\"{}\" is not a metric (hw_efficiency, forward_tflops, speedup)", target.metric));
  }
  target.comparison = scanner.comparison();
  if (target.comparison != ">=" && target.comparison != ">") {
    return refused(text, fmt::format("\"{}\" is not >= or >", target.comparison));
  }
  const std::optional<double> number = scanner.number();
  if (!number || !std::isfinite(*number) || *number <= 0) return refused(text, "a positive number is missing");
  std::string_view word = scanner.word();
  std::string_view unit;
  if (!word.empty() && word != "on") {
    unit = word;
    word = scanner.word();
  }
  const Unit* known = find_unit(target.metric, unit);
  if (known == nullptr) return refused(text, fmt::format("\"{}\" is not a unit of {}", unit, target.metric));
  if (word == "on") {
    target.scope = scanner.word();
    word = {};
  }
  if (target.scope != "all" && target.scope != "any" && target.scope != "geomean") {
    return refused(text, fmt::format("\"{}\" is not all, any or geomean", target.scope));
  }
  if (!word.empty() || !scanner.at_end()) return refused(text, "there is text after the target");
  target.unit = known->unit;
  target.value = *number * known->scale;
  if (target.metric == "hw_efficiency" && target.value > 1.0) {
    return refused(text, fmt::format("an efficiency of {:g} % cannot be reached", target.value * 100));
  }
  return target;
}

std::string format_target(const Target& target) {
  const Unit* unit = find_unit(target.metric, target.unit);
  const double scale = unit != nullptr ? unit->scale : 1.0;
  const std::string number = fmt::format("{:.12g}", target.value / scale);
  const std::string gap = target.unit.empty() || target.unit == "%" || target.unit == "x" ? "" : " ";
  return fmt::format("{} {} {}{}{} on {}", target.metric, target.comparison, number, gap, target.unit, target.scope);
}

TargetStatus check_target(const Target& target, const std::vector<RooflinePoint>& best,
                          const std::vector<RooflinePoint>& baseline) {
  const std::vector<double> values = metric_values(target, best, baseline);
  if (values.empty()) return {false, "not measured yet"};
  for (const double value : values) {
    if (!std::isfinite(value) || value <= 0) return {false, "a shape has no valid measurement"};
  }
  const double value = aggregate(values, target.scope);
  const bool reached = target.comparison == ">" ? value > target.value : value >= target.value;
  const Unit* unit = find_unit(target.metric, target.unit);
  const double scale = unit != nullptr ? unit->scale : 1.0;
  return {reached, fmt::format("{} is {:.4g}{}, asked for: {}", target.metric, value / scale, target.unit,
                               format_target(target))};
}

double geomean_efficiency(const std::vector<RooflinePoint>& points) { return geomean_over(points, efficiency); }
double geomean_flops(const std::vector<RooflinePoint>& points) { return geomean_over(points, flops); }
double geomean_bytes(const std::vector<RooflinePoint>& points) {
  return geomean_over(points, [](const RooflinePoint& point) { return point.cost.bytes / point.latency; });
}

}  // namespace ridge::campaign
