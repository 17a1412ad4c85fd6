#include "roofline/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ridge::roofline {
namespace {

using ::testing::HasSubstr;

std::vector<record::Ceiling> ceilings() {
  return {{"fma_f32", "FLOP/s", 1, 180e9, {}, ""},
          {"fma_f32", "FLOP/s", 2, 350e9, {}, ""},
          {"read_bandwidth", "B/s", 1, 15e9, {}, ""}};
}

TEST(Roofline, TakesTheCeilingsOfTheThreadCount) {
  const auto found = limits(ceilings(), 1);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->flops, 180e9);
  EXPECT_EQ(found->bandwidth, 15e9);
}

TEST(Roofline, NamesAMissingCeilingAndTheKnownOnes) {
  const auto found = limits(ceilings(), 2);
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().text(), HasSubstr("no ceiling \"read_bandwidth\" for 2 thread(s)"));
  EXPECT_THAT(found.error().text(), HasSubstr("fma_f32 (2 threads)"));
  EXPECT_THAT(limits({}, 1).error().text(), HasSubstr("there is: none"));
}

TEST(Roofline, IsBoundByComputeAboveTheRidge) {
  const record::RooflinePoint point = place("m=512", {180e9, 1e9}, *limits(ceilings(), 1), 2.0);
  EXPECT_EQ(point.bound, "compute");
  EXPECT_DOUBLE_EQ(point.intensity, 180);
  EXPECT_DOUBLE_EQ(point.bound_time, 1.0);
  EXPECT_DOUBLE_EQ(point.fraction, 0.5);
}

TEST(Roofline, IsBoundByMemoryBelowTheRidge) {
  const record::RooflinePoint point = place("gemv", {1e9, 15e9}, *limits(ceilings(), 1), 1.25);
  EXPECT_EQ(point.bound, "memory");
  EXPECT_DOUBLE_EQ(point.bound_time, 1.0);
  EXPECT_DOUBLE_EQ(point.fraction, 0.8);
}

TEST(Roofline, AnUnmeasuredOrEmptyCaseHasNoFraction) {
  EXPECT_EQ(place("x", {1e9, 1e9}, *limits(ceilings(), 1), 0.0).fraction, 0.0);
  const record::RooflinePoint empty = place("m=0", {0, 0}, *limits(ceilings(), 1), 1.0);
  EXPECT_EQ(empty.intensity, 0.0);
  EXPECT_EQ(empty.bound_time, 0.0);
  EXPECT_EQ(empty.fraction, 0.0);
}

}  // namespace
}  // namespace ridge::roofline
