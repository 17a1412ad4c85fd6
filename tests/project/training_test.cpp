#include "project/training.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace ridge::project {
namespace {

std::string trace(const std::string& third = "3,10,4,1,1,0,PASS") {
  std::string text(kTrainingHeader);
  text += "\r\n";
  for (int i = 1; i <= kTrainingSteps; ++i) {
    text += i == 3 ? third : fmt::format("{},10,4,1,1,0,PASS", i);
    text += "\r\n";
  }
  return text;
}

TEST(TrainingTrace, IsMediansAndCounts) {
  const Result<record::TrainingTrace> found = read_training_trace(trace("3,90,4,1,0,2,FAIL"));
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->steps, 8);
  EXPECT_DOUBLE_EQ(found->step, 0.010);
  EXPECT_DOUBLE_EQ(found->kernel, 0.004);
  EXPECT_DOUBLE_EQ(found->weight, 0.001);
  EXPECT_EQ(found->weight_hits, 7);
  EXPECT_EQ(found->least_weight_hits, 0);
  EXPECT_EQ(found->tensor_hits, 2);
  EXPECT_EQ(found->failed, 1);
}

TEST(TrainingTrace, RefusesWhatIsNoTrace) {
  for (const char* bad : {"3,10,4,1,1,0", "4,10,4,1,1,0,PASS", "3,ten,4,1,1,0,PASS", "3,nan,4,1,1,0,PASS",
                          "3,10,-4,1,1,0,PASS", "3,10,11,1,1,0,PASS", "3,10,4,5,1,0,PASS", "3,0,0,0,1,0,PASS",
                          "3,10,4,1,-1,0,PASS", "3,10,4,1,1,0.5,PASS", "3,10,4,1,1,0,maybe", ""}) {
    EXPECT_FALSE(read_training_trace(trace(bad))) << bad;
  }
  EXPECT_FALSE(read_training_trace(""));
  EXPECT_FALSE(read_training_trace("step\n1\n"));
  EXPECT_FALSE(read_training_trace(trace() + "9,10,4,1,1,0,PASS\n"));
}

}  // namespace
}  // namespace ridge::project
