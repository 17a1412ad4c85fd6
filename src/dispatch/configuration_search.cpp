#include "dispatch/configuration_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/check.h"
#include "dispatch/earlier_tuning.h"

namespace ridge::dispatch {
namespace {

constexpr double kTrust = 1.0;      // in the cost model, before data
constexpr double kLessTrust = 0.7;  // beside what was measured
constexpr std::size_t kEnough = 3;  // that ran, before the engine says that no other is worth it
constexpr double kWorth = 0.002;    // what another one must gain to be worth a measurement
// How likely that must be: by a cost model, and by measurements alone. With neither the engine cannot tell.
constexpr double kChance = 0.05, kChanceByPast = 0.01;

}  // namespace

ConfigurationSearch::ConfigurationSearch(const ops::Implementation& implementation, const ops::Problem& problem,
                                         const ops::DeviceInfo& device, const std::vector<int>& fitting,
                                         std::vector<search::PastSource> past, std::uint64_t seed)
    : past_(std::move(past)) {
  std::map<std::map<std::string, std::string>, int> by_values;
  for (const int one : fitting) by_values.emplace(values_of(implementation, one), one);
  std::vector<record::StoredMeasurement> all;
  for (const auto& [values, configuration] : by_values) {
    all.emplace_back().configuration = values;
    configurations_.push_back(configuration);
  }
  const record::TuningCache listed = record::recording_of(all);
  std::vector<search::Point> points;
  for (const record::TuningRow& row : listed.rows) points.push_back(row.values);
  auto space = search::Space::of_points(listed.parameters, points);
  check(space.ok(), "configurations of a kernel are points of its space");
  space_ = std::make_unique<search::Space>(std::move(*space));
  std::vector<int> by_number(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) by_number[*space_->rank(points[i])] = configurations_[i];
  configurations_ = std::move(by_number);
  std::vector<search::Prior> priors = search::priors_of(*space_, past_);
  least_chance_ = past_.empty() ? 0 : kChanceByPast;
  if (auto expected = model(implementation, problem, device)) {
    priors.push_back(std::move(*expected));
    least_chance_ = kChance;
  }
  tuner_ = std::make_unique<search::Tuner>(*space_, seed, std::move(priors));
}

// The cost model as an expectation; none where it has nothing to say.
std::optional<search::Prior> ConfigurationSearch::model(const ops::Implementation& implementation,
                                                        const ops::Problem& problem,
                                                        const ops::DeviceInfo& device) const {
  if (!implementation.expected_seconds) return std::nullopt;
  std::vector<double> beyond;  // by number in the space: the logarithm
  for (const int one : configurations_) {
    beyond.push_back(std::log(std::max(implementation.expected_seconds(problem, one, device), 1e-12)));
  }
  const double fastest = *std::ranges::min_element(beyond);
  for (double& one : beyond) one = search::shown_beyond(one - fastest);
  return search::Prior{
      [space = space_.get(), beyond](const search::Point& point) { return beyond[*space->rank(point)]; },
      {},
      past_.empty() ? kTrust : kLessTrust};
}

std::optional<int> ConfigurationSearch::propose() {
  const std::optional<std::uint64_t> next = tuner_->propose();
  if (!next) return std::nullopt;
  if (ran_ >= kEnough) {
    if (const auto expected = tuner_->outlook(*next)) {
      const double needed = *best_ - std::log1p(kWorth);
      const double z = (needed - expected->mean) / expected->deviation;
      if (0.5 * std::erfc(-z / std::sqrt(2.0)) < least_chance_) return std::nullopt;
    }
  }
  return configurations_[*next];
}

void ConfigurationSearch::observe(int configuration, std::optional<double> seconds) {
  const auto found = std::ranges::find(configurations_, configuration);
  if (found == configurations_.end()) return;
  tuner_->observe(static_cast<std::uint64_t>(found - configurations_.begin()), seconds);
  if (!seconds) return;
  ++ran_;
  best_ = std::min(best_.value_or(std::numeric_limits<double>::infinity()), std::log(*seconds));
}

}  // namespace ridge::dispatch
