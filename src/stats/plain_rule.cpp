#include "stats/plain_rule.h"

#include <fmt/format.h>

#include "stats/summary.h"

namespace ridge::stats {
namespace {

constexpr double kShapeFloor = -0.05, kSmallGain = 0.02, kConfirmedGain = 0.01;
constexpr std::size_t kRemeasurements = 3;

std::string name_of(const PlainRuleInput& input, std::size_t shape) {
  return shape < input.labels.size() ? input.labels[shape] : fmt::format("shape {}", shape + 1);
}

// Why a gain under 2 % is not believed; empty when it is.
std::string small_gain_objection(const PlainRuleInput& input) {
  if (input.remeasured.size() < kRemeasurements) {
    return fmt::format("a gain of {:+.2f} % needs {} re-measurements, there are {}", 100 * input.aggregate_gain,
                       kRemeasurements, input.remeasured.size());
  }
  const double average = mean(input.remeasured), spread = standard_deviation(input.remeasured);
  if (average > kConfirmedGain && spread < average / 2) return {};
  return fmt::format("{} re-measurements of {:+.2f} % with a deviation of {:.2f} % do not confirm it",
                     input.remeasured.size(), 100 * average, 100 * spread);
}

}  // namespace

PlainRule plain_rule(const PlainRuleInput& input) {
  PlainRule result;
  if (!(input.aggregate_gain > 0)) {
    result.reason = fmt::format("the aggregate is not up ({:+.2f} %)", 100 * input.aggregate_gain);
    return result;
  }
  std::size_t worst = 0;
  for (std::size_t i = 0; i < input.shape_gains.size(); ++i) {
    if (!(input.shape_gains[i] > kShapeFloor)) {
      result.reason = fmt::format("{} lost {:.2f} %", name_of(input, i), -100 * input.shape_gains[i]);
      return result;
    }
    if (input.shape_gains[i] < input.shape_gains[worst]) worst = i;
  }
  if (input.aggregate_gain < kSmallGain) {
    result.reason = small_gain_objection(input);
    if (!result.reason.empty()) return result;
  }
  result.accepts = true;
  result.with_note = !input.shape_gains.empty() && input.shape_gains[worst] < 0;
  result.reason = fmt::format("the aggregate is up {:+.2f} %", 100 * input.aggregate_gain);
  if (result.with_note) {
    result.reason += fmt::format(", though {} lost {:.2f} %", name_of(input, worst), -100 * input.shape_gains[worst]);
  }
  return result;
}

}  // namespace ridge::stats
