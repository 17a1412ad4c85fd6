#include "campaign/target.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "campaign/project_table.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

using record::RooflinePoint;
using record::Target;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Unit {
  std::string_view kind, unit;
  double scale;  // value in base units = number * scale
};
// The first unit of a kind is its default.
constexpr Unit kUnits[] = {
    {"efficiency", "", 1.0},  {"efficiency", "%", 0.01}, {"speedup", "x", 1.0},   {"flops", "TFLOPS", 1e12},
    {"flops", "GFLOPS", 1e9}, {"bytes", "GB/s", 1e9},    {"bytes", "TB/s", 1e12}, {"bytes", "MB/s", 1e6},
    {"seconds", "us", 1e-6},  {"seconds", "ns", 1e-9},   {"seconds", "ms", 1e-3}, {"seconds", "s", 1.0},
    {"column", "", 1.0},
};

// Of what a target may be about: the metrics of record/metric.h and three more.
std::string_view kind_of(std::string_view metric) {
  if (metric == "hw_efficiency" || metric == "bandwidth_efficiency") return "efficiency";
  if (metric == "speedup") return "speedup";
  const Result<record::Metric> known = record::parse_metric(metric);
  if (!known) return {};
  switch (known->quantity) {
    case record::Quantity::kFlops: return "flops";
    case record::Quantity::kBytes: return "bytes";
    case record::Quantity::kSeconds: return "seconds";
    case record::Quantity::kColumn: return "column";
  }
  return {};
}

bool more_is_better(std::string_view metric) {
  const Result<record::Metric> known = record::parse_metric(metric);
  return !known || known->higher;
}

const Unit* find_unit(std::string_view metric, std::string_view unit) {
  const std::string_view kind = kind_of(metric);
  for (const Unit& row : kUnits) {
    if (row.kind == kind && (unit.empty() || row.unit == unit)) return &row;
  }
  return nullptr;
}

Error refused(std::string_view text, std::string_view why) {
  return with_hint(invalid("performance target \"{}\": {}", text, why),
                   "write `metric op number unit [on all|any|geomean]`, for instance `hw_efficiency >= 90%`, "
                   "`step 700 TFLOPS`, `latency < 20 us`, `forward_tflops >= 0.2 TFLOPS on all`, `speedup >= 8x` or "
                   "`95 % of the bandwidth ceiling`");
}

// Reads one grammar element after another; blanks between them do not matter.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}
  std::string_view word() {
    return take(
        [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '%' || c == '/'; });
  }
  // A name of a metric: letters, digits and _, or column:NAME:higher with anything in NAME.
  std::string_view metric() {
    skip();
    for (const std::string_view end : {":higher", ":lower"}) {
      const std::size_t at = text_.starts_with("column:") ? text_.find(end) : std::string_view::npos;
      if (at == std::string_view::npos) continue;
      const std::string_view taken = text_.substr(0, at + end.size());
      text_.remove_prefix(taken.size());
      return taken;
    }
    if (text_.empty() || std::isalpha(static_cast<unsigned char>(text_.front())) == 0) return {};
    return take([](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
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

// What a metric says of a point: the primary one as it was measured, another one from the directions.
double value_of(const record::Metric& metric, const RooflinePoint& point, const record::Metric& primary) {
  if (metric.name == primary.name && metric.quantity == record::Quantity::kColumn) return point.value.value_or(kNone);
  RooflinePoint counted = point;
  if (metric.name != primary.name && !point.directions.empty()) {
    counted.cost = {};
    counted.latency = 0;
    for (const record::DirectionPoint& one : point.directions) {
      if (!(one.name == "backward" ? metric.backward : metric.forward)) continue;
      counted.cost.flop += one.cost.flop;
      counted.cost.bytes += one.cost.bytes;
      counted.latency += one.latency;
    }
  }
  switch (metric.quantity) {
    case record::Quantity::kFlops: return flops(counted);
    case record::Quantity::kBytes: return counted.cost.bytes / counted.latency;
    case record::Quantity::kSeconds: return counted.latency;
    case record::Quantity::kColumn: return kNone;
  }
  return kNone;
}

double speedup(const RooflinePoint& now, const RooflinePoint& before, const record::Metric& primary) {
  if (primary.quantity != record::Quantity::kColumn) return before.latency / now.latency;
  const double ratio = now.value.value_or(kNone) / before.value.value_or(kNone);
  return primary.higher ? ratio : 1 / ratio;
}

// The metric of every shape, of a bandwidth of those that memory bounds; empty when a shape has no counterpart in the
// baseline.
std::vector<double> metric_values(const Target& target, const std::vector<RooflinePoint>& best,
                                  const std::vector<RooflinePoint>& baseline, const record::Metric& primary) {
  std::vector<double> values;
  const Result<record::Metric> metric = record::parse_metric(target.metric);
  for (const RooflinePoint& point : best) {
    if (target.metric == "hw_efficiency") values.push_back(efficiency(point));
    if (target.metric == "bandwidth_efficiency" && point.bound == "memory") values.push_back(efficiency(point));
    if (target.metric == "speedup") {
      const auto same = [&](const RooflinePoint& other) { return other.label == point.label; };
      const auto found = std::find_if(baseline.begin(), baseline.end(), same);
      if (found == baseline.end()) return {};
      values.push_back(speedup(point, *found, primary));
    }
    if (metric) values.push_back(value_of(*metric, point, primary));
  }
  return values;
}

// "all": the worst shape, "any": the best.
double aggregate(const std::vector<double>& values, std::string_view scope, bool higher) {
  if (scope == "geomean") return stats::geomean(values);
  return (scope == "all") == higher ? *std::min_element(values.begin(), values.end())
                                    : *std::max_element(values.begin(), values.end());
}

// "95 % of the bandwidth ceiling", whose number was read; empty: it is no such target.
std::string_view metric_of_ceiling(Scanner& scanner) {
  if (scanner.word() != "%" || scanner.word() != "of") return {};
  std::string_view word = scanner.word();
  if (word == "the") word = scanner.word();
  const bool bandwidth = word == "bandwidth";
  if (bandwidth) word = scanner.word();
  return word != "ceiling" ? std::string_view() : bandwidth ? "bandwidth_efficiency" : "hw_efficiency";
}

// "step" is the combined step in the unit that follows.
std::string full_name(std::string_view metric, std::string_view text) {
  if (metric != "step") return std::string(metric);
  return text.find("B/s") != std::string_view::npos ? "combined_step_gbps" : "combined_step_tflops";
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
  Scanner scanner(text);
  Target target;
  target.metric = full_name(scanner.metric(), text);
  const bool of_ceiling = target.metric.empty();
  std::optional<double> number = of_ceiling ? scanner.number() : std::nullopt;
  if (of_ceiling) target.metric = number ? metric_of_ceiling(scanner) : std::string_view();
  if (kind_of(target.metric).empty()) {
    return refused(text, fmt::format("\"{}\" is not a metric (hw_efficiency, bandwidth_efficiency, speedup, {})",
                                     target.metric, record::metric_names()));
  }
  const bool higher = more_is_better(target.metric);
  const std::string_view kinds[] = {higher ? ">=" : "<=", higher ? ">" : "<"};
  const std::string_view comparison = of_ceiling ? std::string_view() : scanner.comparison();
  target.comparison = comparison.empty() ? kinds[0] : comparison;
  if (target.comparison != kinds[0] && target.comparison != kinds[1]) {
    return refused(text, fmt::format("\"{}\" is not {} or {}: of {} {} is better", target.comparison, kinds[0],
                                     kinds[1], target.metric, higher ? "more" : "less"));
  }
  if (!of_ceiling) number = scanner.number();
  if (!number || !std::isfinite(*number) || *number <= 0) return refused(text, "a positive number is missing");
  std::string_view word = scanner.word();
  std::string_view unit = of_ceiling ? "%" : "";
  if (!of_ceiling && !word.empty() && word != "on") {
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
  if (known->kind == "efficiency" && target.value > 1.0) {
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
                          const std::vector<RooflinePoint>& baseline, const record::Metric& primary) {
  const std::vector<double> values = metric_values(target, best, baseline, primary);
  if (values.empty() && target.metric == "bandwidth_efficiency" && !best.empty())
    return {false, "no shape is bound by memory"};
  if (values.empty()) return {false, "not measured yet"};
  for (const double value : values) {
    if (!std::isfinite(value) || value <= 0) return {false, "a shape has no valid measurement"};
  }
  const bool higher = more_is_better(target.metric), strict = target.comparison == ">" || target.comparison == "<";
  const double value = aggregate(values, target.scope, higher);
  const bool reached = strict ? (higher ? value > target.value : value < target.value)
                              : (higher ? value >= target.value : value <= target.value);
  const Unit* unit = find_unit(target.metric, target.unit);
  const double scale = unit != nullptr ? unit->scale : 1.0;
  return {reached, fmt::format("{} is {:.4g}{}, asked for: {}", target.metric, value / scale, target.unit,
                               format_target(target))};
}

std::string target_problem(const record::CampaignSpec& spec) {
  if (!spec.performance_target) return {};
  const std::string& name = spec.performance_target->metric;
  const Result<record::Metric> metric = record::parse_metric(name);
  if (!metric || name == spec.primary_metric) return {};
  const bool in_directions = metric->percentile.empty() && metric->quantity != record::Quantity::kColumn;
  const bool known = project_metric(spec) ? gives_metric(spec, name) : !metric->backward;
  if (in_directions && known) return {};
  return fmt::format("the target is about {}, which a campaign on {} does not record{}", name, spec.primary_metric,
                     known ? "; it can be its primary_metric" : "");
}

double geomean_efficiency(const std::vector<RooflinePoint>& points) { return geomean_over(points, efficiency); }
double geomean_flops(const std::vector<RooflinePoint>& points) { return geomean_over(points, flops); }
double geomean_bytes(const std::vector<RooflinePoint>& points) {
  return geomean_over(points, [](const RooflinePoint& point) { return point.cost.bytes / point.latency; });
}

}  // namespace ridge::campaign
