#include "stats/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "simulate.h"
#include "stats/summary.h"

namespace ridge::stats {
namespace {

using Blocks = std::vector<std::vector<double>>;
using ::testing::HasSubstr;

Blocks random_blocks(Noise& noise, std::size_t launches) {
  Blocks blocks(4);
  for (auto& block : blocks) {
    for (std::size_t i = 0; i < launches; ++i) block.push_back(1e-3 * std::exp(0.1 * noise.heavy()));
  }
  return blocks;
}

TEST(Quad, TwiceAsFastIsLogTwo) {
  const Blocks blocks = {{2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {2, 2, 2}};
  EXPECT_NEAR(*quad_log_ratio("ABBA", blocks), std::log(2.0), 1e-15);
  EXPECT_NEAR(*quad_log_ratio("BAAB", blocks), -std::log(2.0), 1e-15);
}

TEST(Quad, ExchangingTheArmsFlipsTheSign) {
  Noise noise(1);
  for (int run = 0; run < 100; ++run) {
    const Blocks blocks = random_blocks(noise, 5);
    EXPECT_EQ(*quad_log_ratio("ABBA", blocks), -*quad_log_ratio("BAAB", blocks));
  }
}

TEST(Quad, ScalingAllTimesChangesNothing) {
  Noise noise(2);
  for (int run = 0; run < 100; ++run) {
    Blocks blocks = random_blocks(noise, 3);
    const double before = *quad_log_ratio("ABBA", blocks);
    for (auto& block : blocks) {
      for (double& t : block) t *= 123.456;
    }
    EXPECT_NEAR(*quad_log_ratio("ABBA", blocks), before, 1e-12);
  }
}

TEST(Quad, LinearDriftCancels) {
  // Log times drift by a constant per block; both arms are equally fast.
  for (const char* order : {"ABBA", "BAAB"}) {
    Blocks blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back({std::exp(0.05 * i)});
    EXPECT_NEAR(*quad_log_ratio(order, blocks), 0, 1e-15);
  }
}

TEST(Quad, OneWildLaunchInABlockDoesNotMatter) {
  const Blocks clean = {{2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {2, 2, 2}};
  Blocks wild = clean;
  wild[1][2] = 50;
  EXPECT_EQ(*quad_log_ratio("ABBA", wild), *quad_log_ratio("ABBA", clean));
}

TEST(Quad, BadInputIsRefusedWithItsValue) {
  const Blocks good = {{1}, {1}, {1}, {1}};
  EXPECT_THAT(quad_log_ratio("AABB", good).error().message, HasSubstr("'AABB'"));
  EXPECT_FALSE(quad_log_ratio("ABBA", Blocks{{1}, {1}, {1}}).ok());
  EXPECT_FALSE(quad_log_ratio("ABBA", Blocks{{1}, {}, {1}, {1}}).ok());
  EXPECT_THAT(quad_log_ratio("ABBA", Blocks{{1}, {0}, {1}, {1}}).error().message, HasSubstr("block 2"));
  EXPECT_FALSE(quad_log_ratio("ABBA", Blocks{{1}, {-1}, {1}, {1}}).ok());
  EXPECT_FALSE(quad_log_ratio("ABBA", Blocks{{1}, {std::nan("")}, {1}, {1}}).ok());
  EXPECT_FALSE(quad_log_ratio("ABBA", Blocks{{1}, {std::numeric_limits<double>::infinity()}, {1}, {1}}).ok());
}

TEST(Session, SuiteIsTheWeightedMeanOfTheShapes) {
  const std::vector<ShapeRatios> shapes = {{"small", 1, {0.1, 0.1}}, {"large", 3, {0.3, 0.5, 0.4}}};
  const auto statistic = session_statistic(shapes);
  ASSERT_TRUE(statistic.ok());
  EXPECT_NEAR(statistic->per_shape[0], 0.1, 1e-15);
  EXPECT_NEAR(statistic->per_shape[1], 0.4, 1e-15);
  EXPECT_NEAR(statistic->suite, (0.1 + 3 * 0.4) / 4, 1e-15);
}

TEST(Session, OnlyProportionsOfWeightsMatter) {
  const std::vector<ShapeRatios> ones = {{"a", 1, {0.1}}, {"b", 2, {0.3}}};
  const std::vector<ShapeRatios> tens = {{"a", 10, {0.1}}, {"b", 20, {0.3}}};
  EXPECT_NEAR(session_statistic(ones)->suite, session_statistic(tens)->suite, 1e-15);
}

TEST(Session, ExchangingTheArmsFlipsTheSign) {
  Noise noise(3);
  for (int run = 0; run < 100; ++run) {
    std::vector<ShapeRatios> shapes(3), flipped(3);
    for (std::size_t s = 0; s < 3; ++s) {
      shapes[s].weight = flipped[s].weight = noise.uniform();
      for (int q = 0; q < 8; ++q) {
        shapes[s].log_ratios.push_back(noise.heavy());
        flipped[s].log_ratios.push_back(-shapes[s].log_ratios.back());
      }
    }
    for (const QuadEstimator estimator : {QuadEstimator::kHodgesLehmann, QuadEstimator::kMedian}) {
      EXPECT_NEAR(session_statistic(shapes, estimator)->suite, -session_statistic(flipped, estimator)->suite, 1e-12);
    }
  }
}

TEST(Session, BadInputIsRefusedByName) {
  EXPECT_FALSE(session_statistic({}).ok());
  const std::vector<ShapeRatios> empty = {{"m=8", 1, {}}}, zero = {{"a", 0, {0.1}}}, negative = {{"a", -1, {0.1}}};
  const std::vector<ShapeRatios> nan = {{"m=9", 1, {std::nan("")}}};
  EXPECT_THAT(session_statistic(empty).error().message, HasSubstr("m=8"));
  EXPECT_FALSE(session_statistic(zero).ok());
  EXPECT_FALSE(session_statistic(negative).ok());
  EXPECT_THAT(session_statistic(nan).error().message, HasSubstr("m=9"));
}

TEST(Guards, OnlyLimitsThatWereCrossedVoid) {
  const auto limits = guard_limits();
  EXPECT_FALSE(void_reason({}, limits).has_value());
  EXPECT_FALSE(void_reason({{"wall", 1e9}, {"clock_gap", 0.004}, {"steal_fraction", 0.01}}, limits).has_value());
  const auto reason = void_reason({{"clock_gap", 0.02}}, limits);
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(*reason, "clock_gap = 0.02 is outside 0..0.005");
  EXPECT_TRUE(void_reason({{"throttle", 1}}, limits).has_value());
  EXPECT_TRUE(void_reason({{"foreign_load", std::nan("")}}, limits).has_value());
}

TEST(Guards, AFifthOfTheSessionsMayBeVoid) {
  EXPECT_FALSE(too_many_voids(6, 32, 0.2));
  EXPECT_TRUE(too_many_voids(7, 32, 0.2));
  EXPECT_FALSE(too_many_voids(2, 10, 0.2));
  EXPECT_TRUE(too_many_voids(3, 10, 0.2));
  EXPECT_FALSE(too_many_voids(0, 32, 0));
}

}  // namespace
}  // namespace ridge::stats
