#include "stats/confirm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "simulate.h"

namespace ridge::stats {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kLabels = {"small", "large"};

SessionStatistic session(double small, double large) { return {(small + large) / 2, {small, large}}; }

TEST(Confirmation, StopsWithTheSuiteWhenTheShapesAreClear) {
  Confirmation test({}, kLabels);
  while (!test.stopped()) test.add(session(0.05, 0.06));
  EXPECT_EQ(test.sessions(), 13);
  EXPECT_THAT(test.reason(), HasSubstr("13 of 13 sessions were more than 1 % faster"));
  EXPECT_THAT(test.reason(), HasSubstr("refuted for all 2 shapes"));
}

// The suite is clearly faster while one shape is too noisy to be judged in as many sessions: it goes on.
TEST(Confirmation, GoesOnUntilANoisyShapeIsDecided) {
  Noise noise(1);
  int passed = 0, longer = 0;
  constexpr int kRuns = 200;
  for (int run = 0; run < kRuns; ++run) {
    Confirmation test({}, kLabels);
    while (!test.stopped()) test.add(session(0.04 * noise.normal(), 0.25 + 0.01 * noise.normal()));
    passed += test.reason().find("refuted for all") != std::string::npos ? 1 : 0;
    longer += test.sessions() > 13 ? 1 : 0;
  }
  EXPECT_GE(passed, 180);  // at the suite's verdict alone, after 13 sessions, 60 % of these were still open
  EXPECT_GE(longer, 50);
}

TEST(Confirmation, EndsWhenAShapeIsShownToBeWorse) {
  Confirmation test({}, kLabels);
  while (!test.stopped()) test.add(session(-0.10, 0.30));
  EXPECT_EQ(test.sessions(), 13);
  EXPECT_THAT(test.reason(), HasSubstr("is shown for small"));
}

TEST(Confirmation, EndsWhenAShapeCanNoLongerBeShown) {
  Confirmation test({}, kLabels);
  for (int i = 0; !test.stopped(); ++i) test.add(session(i % 2 == 0 ? -0.2 : 0.1, 0.5));
  EXPECT_LT(test.sessions(), 32);
  EXPECT_THAT(test.reason(), HasSubstr("not refuted"));
}

TEST(Confirmation, ARejectedSuiteEndsItWhateverTheShapesSay) {
  Confirmation test({}, kLabels);
  while (!test.stopped()) test.add(session(0.0, 0.0));
  EXPECT_EQ(test.sessions(), 4);
  EXPECT_THAT(test.reason(), HasSubstr("given up"));
}

TEST(Confirmation, NeverLastsLongerThanAllowed) {
  Noise noise(2);
  for (int run = 0; run < 500; ++run) {
    Confirmation test({}, kLabels);
    while (!test.stopped()) test.add(session(0.1 * noise.normal(), 0.03 + 0.1 * noise.normal()));
    EXPECT_LE(test.sessions(), 32);
  }
}

// Waiting for the shapes looks at the data more often; a real regression must not slip through more often for it.
TEST(Confirmation, ARealRegressionPassesRarelyAlthoughItWaits) {
  Noise noise(3);
  int passed = 0;
  constexpr int kRuns = 2000;
  for (int run = 0; run < kRuns; ++run) {
    Confirmation test({}, kLabels);
    while (!test.stopped()) test.add(session(-std::log(1.05) + 0.02 * noise.normal(), 0.5));
    passed += test.reason().find("refuted for all") != std::string::npos ? 1 : 0;
  }
  EXPECT_LE(passed, static_cast<int>(0.05 * kRuns) + 40);
}

TEST(Confirmation, ATimeThatIsNotANumberIsNoEvidence) {
  Confirmation test({}, kLabels);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  while (!test.stopped()) test.add({nan, {nan, nan}});
  EXPECT_EQ(test.sessions(), 4);
}

}  // namespace
}  // namespace ridge::stats
