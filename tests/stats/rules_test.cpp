#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "simulate.h"
#include "stats/noise.h"
#include "stats/noninferiority.h"
#include "stats/plain_rule.h"

namespace ridge::stats {
namespace {

using ::testing::HasSubstr;

std::vector<ShapeSeries> simulate_shapes(Noise& noise, int shapes, int sessions, double effect, double sigma) {
  std::vector<ShapeSeries> result;
  for (int s = 0; s < shapes; ++s) {
    result.push_back({"shape" + std::to_string(s), {}, false});
    for (int i = 0; i < sessions; ++i) result.back().log_ratios.push_back(effect + sigma * noise.normal());
  }
  return result;
}

TEST(Holm, MatchesAWorkedExample) {
  const std::vector<double> p = {0.01, 0.04, 0.03, 0.005};
  const std::vector<double> adjusted = holm_adjust(p);
  EXPECT_NEAR(adjusted[3], 0.02, 1e-12);
  EXPECT_NEAR(adjusted[0], 0.03, 1e-12);
  EXPECT_NEAR(adjusted[2], 0.06, 1e-12);
  EXPECT_NEAR(adjusted[1], 0.06, 1e-12);
  EXPECT_TRUE(holm_adjust({}).empty());
}

TEST(NonInferiority, EqualShapesPassWithThirteenSessionsAtOnePercent) {
  Noise noise(1);
  int passed = 0;
  for (int run = 0; run < 300; ++run) {
    passed += test_noninferiority(simulate_shapes(noise, 12, 13, 0, 0.01)).passed ? 1 : 0;
  }
  EXPECT_EQ(passed, 300);
}

TEST(NonInferiority, ARealRegressionPassesRarely) {
  Noise noise(2);
  int passed = 0;
  for (int run = 0; run < 2000; ++run) {
    auto shapes = simulate_shapes(noise, 6, 32, 0.02, 0.01);
    for (double& s : shapes[3].log_ratios) s = -std::log(1.05) + 0.01 * noise.normal();
    passed += test_noninferiority(shapes).passed ? 1 : 0;
  }
  EXPECT_LE(passed, 2000 * 0.05 + 4 * 10);
}

// Stopping at the most flattering moment must not help: the p-value is valid at any time.
TEST(NonInferiority, PeekingDoesNotHelp) {
  Noise noise(3);
  int ever_passed = 0;
  for (int run = 0; run < 2000; ++run) {
    ShapeSeries shape{"s", {}, false};
    bool passed = false;
    for (int i = 0; i < 32; ++i) {
      shape.log_ratios.push_back(-std::log(1.05) + 0.01 * noise.normal());
      const std::vector<ShapeSeries> one = {shape};
      passed = passed || test_noninferiority(one).passed;
    }
    ever_passed += passed ? 1 : 0;
  }
  EXPECT_LE(ever_passed, 2000 * 0.05 + 4 * 10);
}

TEST(NonInferiority, NamesTheShapeThatGotWorse) {
  Noise noise(4);
  auto shapes = simulate_shapes(noise, 4, 13, 0.05, 0.01);
  for (double& s : shapes[2].log_ratios) s = std::log(0.8);
  const NonInferiority result = test_noninferiority(shapes);
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.shapes[2].verdict, ShapeVerdict::kWorse);
  EXPECT_EQ(result.shapes[0].verdict, ShapeVerdict::kNotWorse);
  EXPECT_NEAR(result.shapes[2].ratio, 0.8, 1e-9);
  EXPECT_THAT(result.reason, HasSubstr("shown for shape2: ratio 0.8000, 0 of 13 sessions"));
}

TEST(NonInferiority, TooFewSessionsAreInconclusiveNotWorse) {
  Noise noise(5);
  const NonInferiority result = test_noninferiority(simulate_shapes(noise, 2, 3, 0, 0.01));
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.shapes[0].verdict, ShapeVerdict::kInconclusive);
  EXPECT_THAT(result.reason, HasSubstr("not refuted"));
  const std::vector<ShapeSeries> none = {{"empty", {}, false}};
  EXPECT_FALSE(test_noninferiority(none).passed);
}

TEST(NonInferiority, ExemptShapesAreReportedButNotRequired) {
  Noise noise(6);
  auto shapes = simulate_shapes(noise, 3, 13, 0.05, 0.01);
  for (double& s : shapes[1].log_ratios) s = -0.5;
  shapes[1].exempt = true;
  const NonInferiority result = test_noninferiority(shapes);
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.shapes[1].verdict, ShapeVerdict::kExempt);
  EXPECT_LT(result.shapes[1].ratio, 0.7);
}

std::vector<double> sessions_of(Noise& noise, int count, double bias, double sigma) {
  std::vector<double> sessions;
  for (int i = 0; i < count; ++i) sessions.push_back(bias + sigma * noise.normal());
  return sessions;
}

TEST(Calibration, AQuietFairMachineIsHealthy) {
  Noise noise(7);
  const Calibration result = calibrate(sessions_of(noise, 24, 0, 0.002), 0.01);
  EXPECT_TRUE(result.healthy) << result.reason;
  EXPECT_TRUE(result.proven_fair);
  EXPECT_NEAR(result.sigma, 0.002, 0.001);
  EXPECT_NEAR(result.smallest_effect, 1.01 * std::exp(2 * result.sigma) - 1, 1e-12);
}

TEST(Calibration, SigmaOfNormalSessionsIsUnbiased) {
  Noise noise(8);
  EXPECT_NEAR(calibrate(sessions_of(noise, 20001, 0, 0.01), 0.05).sigma, 0.01, 0.0003);
}

TEST(Calibration, ABiasedArmStopsTheCampaign) {
  Noise noise(9);
  for (const auto& [bias, sigma] : {std::pair(0.004, 0.002), std::pair(-0.002, 0.0005)}) {
    const Calibration result = calibrate(sessions_of(noise, 24, bias, sigma), 0.01);
    EXPECT_TRUE(result.biased);
    EXPECT_FALSE(result.healthy);
    EXPECT_THAT(result.reason, HasSubstr("this machine is biased"));
  }
}

TEST(Calibration, ANoisyButFairMachineIsUsedAndSaysWhatItCannotDecide) {
  Noise noise(12);
  const Calibration result = calibrate(sessions_of(noise, 8, 0, 0.03), 0.01);
  EXPECT_TRUE(result.healthy) << result.reason;
  EXPECT_GT(result.smallest_effect, 0.03);
  EXPECT_THAT(result.reason, HasSubstr("are decided in about 15 sessions"));
}

TEST(Calibration, AMachineThatCannotEvenSeeADoublingStopsTheCampaign) {
  Noise noise(13);
  const Calibration result = calibrate(sessions_of(noise, 16, 0, 0.6), 0.01);
  EXPECT_TRUE(result.too_noisy);
  EXPECT_FALSE(result.healthy);
  EXPECT_THAT(result.reason, HasSubstr("this machine is too noisy"));
}

TEST(Calibration, FewOrBrokenSessionsAreNeverHealthy) {
  EXPECT_FALSE(calibrate({}, 0.01).healthy);
  EXPECT_FALSE(calibrate(std::vector<double>{0, 0, 0}, 0.01).healthy);
  EXPECT_FALSE(calibrate(std::vector<double>{0, 0, std::nan(""), 0, 0}, 0.01).healthy);
  EXPECT_TRUE(calibrate(std::vector<double>{0, 0, 0, 0}, 0.01).healthy);
}

TEST(Calibration, FairMachinesAreRefusedAboutOnceInAHundred) {
  Noise noise(10);
  for (const double sigma : {0.002, 0.02}) {
    int failed = 0;
    for (int run = 0; run < 2000; ++run) {
      failed += calibrate(sessions_of(noise, 24, 0, sigma), 0.01).healthy ? 0 : 1;
    }
    EXPECT_LE(failed, 40) << sigma;
  }
}

TEST(PlainRule, FollowsTheWords) {
  EXPECT_FALSE(plain_rule({.aggregate_gain = 0}).accepts);
  EXPECT_TRUE(plain_rule({.aggregate_gain = 0.03, .shape_gains = {0.01, 0.05}}).accepts);
  const PlainRule note = plain_rule({.aggregate_gain = 0.03, .labels = {"a", "b"}, .shape_gains = {0.08, -0.04}});
  EXPECT_TRUE(note.accepts);
  EXPECT_TRUE(note.with_note);
  EXPECT_THAT(note.reason, HasSubstr("b lost 4.00 %"));
  const PlainRule lost = plain_rule({.aggregate_gain = 0.5, .labels = {"a", "b"}, .shape_gains = {0.9, -0.05}});
  EXPECT_FALSE(lost.accepts);
  EXPECT_THAT(lost.reason, HasSubstr("b lost 5.00 %"));
}

TEST(PlainRule, SmallGainsNeedThreeSteadyRemeasurements) {
  EXPECT_FALSE(plain_rule({.aggregate_gain = 0.015}).accepts);
  EXPECT_FALSE(plain_rule({.aggregate_gain = 0.015, .remeasured = {0.015, 0.016}}).accepts);
  EXPECT_TRUE(plain_rule({.aggregate_gain = 0.015, .remeasured = {0.015, 0.016, 0.014}}).accepts);
  EXPECT_FALSE(plain_rule({.aggregate_gain = 0.015, .remeasured = {0.030, 0.001, 0.014}}).accepts);
  EXPECT_FALSE(plain_rule({.aggregate_gain = 0.015, .remeasured = {0.009, 0.010, 0.010}}).accepts);
  EXPECT_TRUE(plain_rule({.aggregate_gain = 0.02}).accepts);
}

TEST(PlainRule, NanNeverPasses) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(plain_rule({.aggregate_gain = nan}).accepts);
  EXPECT_FALSE(plain_rule({.aggregate_gain = 0.1, .shape_gains = {0.1, nan}}).accepts);
  EXPECT_FALSE(plain_rule({.aggregate_gain = 0.015, .remeasured = {nan, 0.015, 0.015}}).accepts);
}

}  // namespace
}  // namespace ridge::stats
