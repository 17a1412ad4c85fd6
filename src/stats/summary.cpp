#include "stats/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace ridge::stats {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> copy(values.begin(), values.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

double quantile_of_sorted(const std::vector<double>& values, double q) {
  if (values.empty()) return kNan;
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  const double fraction = position - static_cast<double>(below);
  if (fraction == 0 || values[below] == values[above]) return values[below];
  return values[below] + fraction * (values[above] - values[below]);
}

bool has_nan(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
}

// Median of a buffer it may reorder.
double median_in_place(std::vector<double>& values) {
  if (values.empty()) return kNan;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace

double mean(std::span<const double> values) {
  if (values.empty()) return kNan;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return kNan;
  const double centre = mean(values);
  double sum = 0;
  for (const double x : values) sum += (x - centre) * (x - centre);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double min(std::span<const double> values) {
  if (values.empty() || has_nan(values)) return kNan;
  return *std::min_element(values.begin(), values.end());
}

double median(std::span<const double> values) { return quantile(values, 0.5); }

double quantile(std::span<const double> values, double q) {
  return has_nan(values) ? kNan : quantile_of_sorted(sorted(values), q);
}

double mad(std::span<const double> values) {
  const double centre = median(values);
  std::vector<double> distance(values.begin(), values.end());
  for (double& x : distance) x = std::fabs(x - centre);
  return median(distance);
}

double spread(std::span<const double> values) {
  if (values.size() < 2) return 0.0;
  constexpr std::size_t kEnoughForMad = 12;
  const double robust = kMadToSigma * mad(values);
  return values.size() >= kEnoughForMad ? robust : std::max(robust, standard_deviation(values));
}

double geomean(std::span<const double> values) {
  double sum = 0;
  for (const double x : values) {
    if (!(x > 0)) return kNan;
    sum += std::log(x);
  }
  return values.empty() ? kNan : std::exp(sum / static_cast<double>(values.size()));
}

double hodges_lehmann(std::span<const double> values) {
  if (has_nan(values)) return kNan;
  std::vector<double> means;
  means.reserve(values.size() * (values.size() + 1) / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i; j < values.size(); ++j) means.push_back((values[i] + values[j]) / 2);
  }
  return median_in_place(means);
}

double binomial_half_cdf(int k, int n) {
  if (k < 0) return 0;
  if (k >= n) return 1;
  double sum = 0;
  for (int i = 0; i <= k; ++i) {
    sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) - n * std::log(2.0));
  }
  return std::min(sum, 1.0);
}

double sign_test_p_value(int wins, int n) {
  const int fewer = std::min(wins, n - wins);
  return std::min(1.0, 2 * binomial_half_cdf(fewer, n));
}

Interval sign_interval(std::span<const double> values, double confidence) {
  const std::vector<double> ordered = sorted(values);
  const int n = static_cast<int>(ordered.size());
  if (n == 0 || has_nan(values)) return {kNan, kNan, 0};
  // Order statistics k and n + 1 - k (from 1) cover the median with probability 1 - 2 P(X <= k - 1).
  int k = 1;
  while (k + 1 <= n / 2 && 1 - 2 * binomial_half_cdf(k, n) >= confidence) ++k;
  const double coverage = std::max(0.0, 1 - 2 * binomial_half_cdf(k - 1, n));
  return {ordered[static_cast<std::size_t>(k - 1)], ordered[static_cast<std::size_t>(n - k)], coverage};
}

}  // namespace ridge::stats
