#include "stats/noninferiority.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stats/decide.h"
#include "stats/summary.h"

namespace ridge::stats {
namespace {

// 1 / the largest evidence seen against "a session wins with probability 1/2 at most".
double betting_p_value(const ShapeSeries& shape, double threshold, bool above, int* wins = nullptr) {
  SignBetting betting;
  double largest = 1;
  for (std::size_t i = 0; i < shape.log_ratios.size(); ++i) {
    const double ratio = shape.log_ratios[i], slack = i < shape.slacks.size() ? shape.slacks[i] : 0;
    betting.add(above ? ratio > threshold + slack : ratio < threshold - slack);
    largest = std::max(largest, betting.evidence());
  }
  if (wins != nullptr) *wins = betting.wins();
  return 1 / largest;
}

ShapeResult measure(const ShapeSeries& shape, double threshold) {
  ShapeResult result;
  result.label = shape.label;
  result.sessions = static_cast<int>(shape.log_ratios.size());
  result.p_value = betting_p_value(shape, threshold, true, &result.wins);
  result.ratio = std::exp(hodges_lehmann(shape.log_ratios));
  return result;
}

std::string explain(const NonInferiority& result, double margin, double level) {
  const ShapeResult* worst = nullptr;
  int judged = 0;
  for (const ShapeResult& shape : result.shapes) {
    if (shape.verdict == ShapeVerdict::kExempt) continue;
    ++judged;
    if (worst == nullptr || shape.adjusted_p_value > worst->adjusted_p_value ||
        (shape.adjusted_p_value == worst->adjusted_p_value && shape.ratio < worst->ratio)) {
      worst = &shape;
    }
  }
  if (worst == nullptr) return "no shape had to be judged";
  const std::string figures = fmt::format(
      "{}: ratio {:.4f}, {} of {} sessions better than -{:.3g} %, p = {:.2g} (Holm, {} shapes)", worst->label,
      worst->ratio, worst->wins, worst->sessions, 100 * margin, worst->adjusted_p_value, judged);
  if (result.passed) {
    return fmt::format("a regression of {:.3g} % or more is refuted for all {} shapes at level {:.3g}; closest is {}",
                       100 * margin, judged, level, figures);
  }
  const bool shown = worst->verdict == ShapeVerdict::kWorse;
  return fmt::format("a regression of {:.3g} % or more is {} for {}", 100 * margin, shown ? "shown" : "not refuted",
                     figures);
}

}  // namespace

const char* to_string(ShapeVerdict verdict) {
  switch (verdict) {
    case ShapeVerdict::kNotWorse: return "not worse";
    case ShapeVerdict::kWorse: return "worse";
    case ShapeVerdict::kInconclusive: return "inconclusive";
    case ShapeVerdict::kExempt: return "exempt";
  }
  return "inconclusive";
}

std::vector<double> holm_adjust(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return p_values[x] < p_values[y]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double scaled = p_values[order[rank]] * static_cast<double>(order.size() - rank);
    largest = std::max(largest, std::min(1.0, scaled));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

NonInferiority test_noninferiority(std::span<const ShapeSeries> shapes, double margin, double level) {
  const double threshold = -std::log1p(margin);
  NonInferiority result;
  std::vector<double> p_values;
  for (const ShapeSeries& shape : shapes) {
    result.shapes.push_back(measure(shape, threshold));
    if (!shape.exempt) p_values.push_back(result.shapes.back().p_value);
  }
  const std::vector<double> adjusted = holm_adjust(p_values);
  const double family = static_cast<double>(p_values.size());
  result.passed = true;
  std::size_t judged = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    ShapeResult& shape = result.shapes[i];
    if (shapes[i].exempt) {
      shape.verdict = ShapeVerdict::kExempt;
      shape.adjusted_p_value = shape.p_value;
      continue;
    }
    shape.adjusted_p_value = adjusted[judged++];
    const double worse_p = betting_p_value(shapes[i], threshold, false);
    if (shape.adjusted_p_value <= level) {
      shape.verdict = ShapeVerdict::kNotWorse;
    } else if (worse_p * family <= level) {
      shape.verdict = ShapeVerdict::kWorse;
    }
    result.passed = result.passed && shape.verdict == ShapeVerdict::kNotWorse;
  }
  result.reason = explain(result, margin, level);
  return result;
}

}  // namespace ridge::stats
