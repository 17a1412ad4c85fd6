// Looks at short kernels on a busy machine: a call that comes to nothing counts nowhere.
#include "evaluate/look_times.h"

#include <gtest/gtest.h>

namespace ridge::evaluate {
namespace {

constexpr double kNothing = 1e-9;  // what is left of a call that was over before what is taken off it

TEST(LookTimes, AnIncumbentHasATimeWhileOneOfItsCallsHas) {
  EXPECT_EQ(known_median({3e-6, 1e-6, 2e-6}), 2e-6);
  EXPECT_EQ(known_median({3e-6, kNothing, 1e-6, kNothing, 2e-6}), 2e-6);
  EXPECT_EQ(known_median({kNothing, kNothing}), std::nullopt);
  EXPECT_EQ(known_median({}), std::nullopt);
}

TEST(LookTimes, AreThoseOfTheIncumbentTimesTheRatioOfTheFastest) {
  LookTimes twice;
  twice.add(4e-6, 2e-6);
  twice.add(9e-6, 3e-6);
  twice.add(40e-6, 20e-6);
  EXPECT_DOUBLE_EQ(twice.latency({2e-6, 3e-6, 20e-6, 5e-6, 5e-6}).value(), 10e-6);
}

// With the call that came to nothing it would be the fastest of the sweep by far.
TEST(LookTimes, ACallThatComesToNothingIsNoFastOne) {
  LookTimes one;
  one.add(4e-6, 2e-6);
  one.add(kNothing, 2e-6);
  one.add(4e-6, 2e-6);
  EXPECT_DOUBLE_EQ(one.latency({2e-6, 2e-6, 2e-6}).value(), 4e-6);
  LookTimes alone;
  for (const double latency : {kNothing, 5e-6, kNothing}) alone.add(latency, std::nullopt);
  EXPECT_DOUBLE_EQ(alone.latency({}).value(), 5e-6);
}

TEST(LookTimes, ACallOfTheIncumbentThatComesToNothingTakesItsPairAlong) {
  LookTimes one;
  one.add(1e-6, kNothing);
  one.add(4e-6, 2e-6);
  one.add(6e-6, 2e-6);
  EXPECT_DOUBLE_EQ(one.latency({kNothing, 2e-6, 2e-6}).value(), 4e-6);
}

TEST(LookTimes, WhereNothingIsKnownOfTheIncumbentTheOwnCallsCount) {
  LookTimes one;
  for (const double latency : {7e-6, 5e-6, 6e-6}) one.add(latency, kNothing);
  EXPECT_DOUBLE_EQ(one.latency({kNothing, kNothing, kNothing}).value(), 6e-6);
  LookTimes nothing;
  for (int i = 0; i < 3; ++i) nothing.add(kNothing, 2e-6);
  EXPECT_EQ(nothing.latency({2e-6}), std::nullopt);
}

}  // namespace
}  // namespace ridge::evaluate
