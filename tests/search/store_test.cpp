#include "record/tuning_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ridge::record {
namespace {

using testing::HasSubstr;

TuningCache recorded() {
  TuningCache cache{"", "", {{"block", {{16, {}}, {0.5, {}}}}, {"layout", {{0, "nn"}, {0, "nt"}}}}, {}};
  cache.rows.push_back({{0, 0}, 0.1, 2, {}});
  cache.rows.push_back({{0, 1}, 1.0 / 3, 3, {}});
  cache.rows.push_back({{1, 1}, std::numeric_limits<double>::quiet_NaN(), 1, "compile"});
  return cache;
}

StoredMeasurement origin() {
  StoredMeasurement one;
  one.kernel = "scale";
  one.device = "made up";
  return one;
}

TEST(TuningStore, GivesBackInT4WhatItWasGiven) {
  std::vector<StoredMeasurement> store;
  ASSERT_EQ(*add_measurements(store, measurements_of(recorded(), origin())), 3u);
  const auto read = parse_tuning_store(tuning_store_text(store));
  ASSERT_TRUE(read) << read.error().text();
  const auto back = parse_tuning_cache(t4_text(*read));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->kernel, "scale");
  EXPECT_EQ(back->device, "made up");
  ASSERT_EQ(back->rows.size(), 3u);
  const auto given = recorded();
  for (std::size_t i = 0; i < 3; ++i) {
    const TuningRow &was = given.rows[i], &is = back->rows[i];
    EXPECT_EQ(is.failure, was.failure);
    if (!was.failed()) {
      EXPECT_DOUBLE_EQ(is.time, was.time);
    }
    EXPECT_DOUBLE_EQ(is.cost, was.cost);
    for (std::size_t p = 0; p < 2; ++p) {
      EXPECT_EQ(to_text(back->parameters[p].values[is.values[p]]),
                to_text(recorded().parameters[p].values[was.values[p]]));
    }
  }
}

TEST(TuningStore, GivesARecordingBackThatHasEachConfigurationAsItWasKeptLast) {
  std::vector<StoredMeasurement> store = measurements_of(recorded(), origin());
  store.push_back(store[0]);
  store.back().seconds = 0.05;
  store.push_back(store[0]);
  store.back().configuration = {{"another", "1"}};  // of another source, under the same name
  const TuningCache back = recording_of(store);
  EXPECT_EQ(back.kernel, "scale");
  EXPECT_EQ(back.device, "made up");
  ASSERT_EQ(back.parameters.size(), 2u);
  EXPECT_EQ(back.parameters[0].values, (std::vector<ParameterValue>{{0.5, {}}, {16, {}}})) << "in their order";
  ASSERT_EQ(back.rows.size(), 3u);
  EXPECT_EQ(back.rows[0].failure, "compile");
  EXPECT_EQ(back.rows[1].time, 0.05) << "kept last";
  EXPECT_TRUE(recording_of({}).rows.empty());
}

TEST(TuningStore, ProblemsAreAsFarApartAsTheirSizesAndKinds) {
  const double two = std::log(2.0);
  EXPECT_EQ(problem_distance("m=1 n=7 layout=nt", "m=1 n=7 layout=nt"), 0);
  EXPECT_NEAR(problem_distance("m=1 n=7 layout=nt", "m=3 n=7 layout=nt"), two, 1e-12);
  EXPECT_NEAR(problem_distance("m=1 n=7 layout=nt", "m=3 n=7 layout=nn"), two + kOtherKind, 1e-12);
  EXPECT_NEAR(problem_distance("m=1 n=7; m=7 n=7", "m=3 n=7"), two, 1e-12) << "of several the nearest";
  EXPECT_EQ(problem_distance("anything", "anything"), 0);
  EXPECT_EQ(problem_distance("no case", "m=1"), std::numeric_limits<double>::infinity());
  const TuningSource source{"here", "m=1 n=7", "a campaign"};
  EXPECT_EQ(distance(source, "here", "m=1 n=7"), 0);
  EXPECT_GT(distance(source, "there", "m=1 n=7"), 0) << "another device";
  EXPECT_LT(distance(source, "there", "m=1 n=7"), two + distance(source, "here", "m=3 n=7"));
}

TEST(TuningStore, KeepsAMeasurementOnceAndRefusesAnotherTimeForIt) {
  std::vector<StoredMeasurement> store;
  ASSERT_TRUE(add_measurements(store, measurements_of(recorded(), origin())));
  EXPECT_EQ(*add_measurements(store, measurements_of(recorded(), origin())), 0u);
  TuningCache again = recorded();
  again.rows[1].time = 0.25;
  const auto refused = add_measurements(store, measurements_of(again, origin()));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("row 2 (block=16 layout=nt) is 0.25 s, and the store has 0.333"));
  StoredMeasurement faster = origin();
  faster.clocks = "1980 MHz";
  EXPECT_EQ(*add_measurements(store, measurements_of(again, faster)), 3u);
  EXPECT_THAT(parse_tuning_store(tuning_store_text(store) + "{\"kernel\":3}").error().text(), HasSubstr("line 7"));
}

}  // namespace
}  // namespace ridge::record
