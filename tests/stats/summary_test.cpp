#include "stats/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "simulate.h"

namespace ridge::stats {
namespace {

using Values = std::vector<double>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Summary, HandComputedValues) {
  const Values x = {4, 1, 3, 2};
  EXPECT_EQ(mean(x), 2.5);
  EXPECT_EQ(median(x), 2.5);
  EXPECT_EQ(min(x), 1);
  EXPECT_NEAR(standard_deviation(x), std::sqrt(5.0 / 3), 1e-15);
  EXPECT_EQ(quantile(x, 0), 1);
  EXPECT_EQ(quantile(x, 1), 4);
  EXPECT_NEAR(quantile(x, 0.25), 1.75, 1e-15);  // R type 7
  EXPECT_EQ(mad(Values{1, 1, 2, 2, 4, 6, 9}), 1);
  EXPECT_NEAR(geomean(Values{1, 4, 16}), 4, 1e-12);
}

TEST(Summary, EmptyAndNanGiveNan) {
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_TRUE(std::isnan(mean({})));
  EXPECT_TRUE(std::isnan(min({})));
  EXPECT_TRUE(std::isnan(hodges_lehmann({})));
  EXPECT_TRUE(std::isnan(geomean({})));
  EXPECT_TRUE(std::isnan(standard_deviation(Values{1})));
  EXPECT_TRUE(std::isnan(median(Values{1, kNan, 2})));
  EXPECT_TRUE(std::isnan(hodges_lehmann(Values{1, kNan})));
  EXPECT_TRUE(std::isnan(geomean(Values{1, 0})));
}

TEST(HodgesLehmann, IsTheMedianOfPairwiseMeans) {
  // Pairwise means of 1, 2, 6: 1, 1.5, 3.5, 2, 4, 6 -> median (2 + 3.5) / 2.
  EXPECT_EQ(hodges_lehmann(Values{1, 2, 6}), 2.75);
  EXPECT_EQ(hodges_lehmann(Values{5}), 5);
  EXPECT_EQ(hodges_lehmann(Values{1, 3}), 2);
}

TEST(HodgesLehmann, ShiftsWithTheDataAndFlipsWithItsSign) {
  Noise noise(1);
  for (int run = 0; run < 100; ++run) {
    Values x(static_cast<std::size_t>(1 + run % 12)), shifted, flipped;
    for (double& v : x) v = noise.heavy();
    for (const double v : x) shifted.push_back(v + 7);
    for (const double v : x) flipped.push_back(-v);
    EXPECT_NEAR(hodges_lehmann(shifted), hodges_lehmann(x) + 7, 1e-12);
    EXPECT_NEAR(hodges_lehmann(flipped), -hodges_lehmann(x), 1e-12);
  }
}

TEST(HodgesLehmann, OneWildValueInEightMovesItLittle) {
  Values x = {1.00, 1.01, 0.99, 1.02, 0.98, 1.00, 1.01, 100};
  EXPECT_NEAR(hodges_lehmann(x), 1.005, 0.01);
}

TEST(Binomial, TailsAreExact) {
  EXPECT_NEAR(binomial_half_cdf(0, 13), std::pow(0.5, 13), 1e-18);
  EXPECT_NEAR(binomial_half_cdf(2, 5), 0.5, 1e-12);
  EXPECT_EQ(binomial_half_cdf(-1, 5), 0);
  EXPECT_EQ(binomial_half_cdf(5, 5), 1);
  EXPECT_NEAR(sign_test_p_value(10, 10), 2.0 / 1024, 1e-15);
  EXPECT_EQ(sign_test_p_value(5, 10), 1);
}

TEST(SignInterval, UsesTheTabulatedOrderStatistics) {
  Values x;
  for (int i = 1; i <= 13; ++i) x.push_back(i);
  // n = 13 at 95 %: the 3rd and the 11th, coverage 0.9775.
  const Interval interval = sign_interval(x, 0.95);
  EXPECT_EQ(interval.low, 3);
  EXPECT_EQ(interval.high, 11);
  EXPECT_NEAR(interval.confidence, 0.97754, 1e-5);
}

TEST(SignInterval, TooFewValuesSayWhatTheyCover) {
  const Interval interval = sign_interval(Values{1, 2, 3, 4}, 0.95);
  EXPECT_EQ(interval.low, 1);
  EXPECT_EQ(interval.high, 4);
  EXPECT_NEAR(interval.confidence, 0.875, 1e-12);
  EXPECT_EQ(sign_interval(Values{1}, 0.95).confidence, 0);
}

TEST(SignInterval, CoversTheMedianAsOftenAsItSays) {
  Noise noise(2);
  int covered = 0;
  for (int run = 0; run < 4000; ++run) {
    Values x(15);
    for (double& v : x) v = std::exp(noise.heavy());  // skewed and heavy-tailed; median 1
    const Interval interval = sign_interval(x, 0.95);
    covered += interval.low <= 1 && 1 <= interval.high ? 1 : 0;
  }
  EXPECT_GE(covered, 4000 * 0.95);
  EXPECT_LE(covered, 4000 * 0.985);
}

}  // namespace
}  // namespace ridge::stats
