// Order statistics and intervals. Every function is pure; an empty sample gives NaN.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::stats {

// Scales a median absolute deviation to the standard deviation of a normal sample.
inline constexpr double kMadToSigma = 1.4826;

double mean(std::span<const double> values);
// Sample standard deviation (divides by n - 1); NaN below two values.
double standard_deviation(std::span<const double> values);
double min(std::span<const double> values);
double median(std::span<const double> values);
// Linear interpolation between order statistics (R's type 7); q in 0..1.
double quantile(std::span<const double> values, double q);
// Median of |x - median(x)|, unscaled.
double mad(std::span<const double> values);
// Standard deviation of a sample with wild values in it: 1.4826 MAD; below 12 values, where that can be near zero by
// luck, at least the classical one. 0 below two values.
double spread(std::span<const double> values);
// exp(mean(log x)); NaN if a value is not positive.
double geomean(std::span<const double> values);

// One-sample Hodges-Lehmann estimate: the median of all pairwise means (x_i + x_j) / 2, i <= j. 96 % as efficient as
// the mean for normal noise and unmoved by up to 29 % wild values. O(n^2): meant for quads and sessions, not launches.
double hodges_lehmann(std::span<const double> values);

struct Interval {
  double low = 0, high = 0;
  double confidence = 0;  // what is really covered: never less than asked, except when the sample is too small
};

// Interval of the median that assumes nothing but independence: order statistics k and n + 1 - k, with the largest k
// whose binomial coverage is at least `confidence`. Too few values (n = 4 covers 0.875): the range, with its coverage.
Interval sign_interval(std::span<const double> values, double confidence);

// P(X <= k) for X ~ Binomial(n, 1/2), and the two-sided p-value of `k` wins among n fair coins.
double binomial_half_cdf(int k, int n);
double sign_test_p_value(int wins, int n);

}  // namespace ridge::stats
