// What a check looks at beside the case, for a processor and for GPUs of two sizes.
#include "evaluate/check_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ridge::evaluate {
namespace {

using ::testing::HasSubstr;

class CheckPolicy : public ::testing::TestWithParam<CheckLimits> {
 protected:
  CheckPolicy() { subject_.implementation = *ops::find_implementation(*op_, "reference"); }
  [[nodiscard]] ops::Problem bound(const std::string& words) const {
    return *op_->bind(*record::parse_case("gemm " + words));
  }
  [[nodiscard]] HeldOutShapes shapes(const std::string& words, const CheckLimits& limits, std::uint64_t seed) const {
    return held_out_shapes(subject_, *op_, bound(words), limits, Secrets(seed, "test"));
  }
  const ops::Operator* op_ = *ops::find_operator("gemm");
  Subject subject_;
};

TEST_P(CheckPolicy, ShapesNearTheCaseAndLargerOnesInEverySize) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const HeldOutShapes found = shapes("m=96 n=80 k=112", GetParam(), seed);
    EXPECT_EQ(found.bounded, "");
    ASSERT_EQ(found.near.size(), 2u);
    for (const HeldOut& shape : found.near) {
      ASSERT_EQ(shape.size(), 2u);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_LE(shape[0].values[i], bound("m=96 n=80 k=112").values[i]);
        EXPECT_EQ(shape[1].values[i] % 16, 0) << "for a plan that takes aligned sizes only";
      }
    }
    ASSERT_EQ(found.larger.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      for (const ops::Problem& larger : found.larger[i]) {
        EXPECT_GT(larger.values[i], 4 * bound("m=96 n=80 k=112").values[i]);
        for (std::size_t j = 0; j < 3; ++j) EXPECT_TRUE(i == j || larger.values[j] <= 112);
      }
    }
  }
  EXPECT_NE(shapes("m=96 n=80 k=112", GetParam(), 1).near[0][0].values,
            shapes("m=96 n=80 k=112", GetParam(), 2).near[0][0].values);
}

TEST_P(CheckPolicy, ASizeThatCannotBeLargerIsSaid) {
  CheckLimits limits = GetParam();
  limits.larger_bytes = 1e5;  // less than a few dozen times 40000 of fp32
  const HeldOutShapes found = shapes("m=10000 n=80 k=112", limits, 3);
  EXPECT_EQ(found.larger.size(), 2u);
  EXPECT_THAT(found.bounded, HasSubstr("none larger in m within " + limits.larger_words));
}

TEST_P(CheckPolicy, WorkThatTakesLongMeetsFewerContents) {
  CheckLimits limits = GetParam();
  EXPECT_EQ(families_to_check(*op_, bound("m=20 n=20 k=20"), limits, 0).size(), 8u);
  EXPECT_EQ(alterations(*op_, bound("m=20 n=20 k=20"), limits), 3);
  limits.cheap_flop = 1;
  EXPECT_EQ(families_to_check(*op_, bound("m=20 n=20 k=20"), limits, 0).size(), 2u);
  EXPECT_NE(families_to_check(*op_, bound("m=20 n=20 k=20"), limits, 0),
            families_to_check(*op_, bound("m=20 n=20 k=20"), limits, 1));
  EXPECT_EQ(alterations(*op_, bound("m=20 n=20 k=20"), limits), 1);
}

INSTANTIATE_TEST_SUITE_P(Rigs, CheckPolicy,
                         ::testing::Values(limits_of_processor(), limits_of_gpu(80e9), limits_of_gpu(8e9)));

}  // namespace
}  // namespace ridge::evaluate
