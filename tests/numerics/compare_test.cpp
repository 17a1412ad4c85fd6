#include "numerics/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "numerics/convert.h"
#include "numerics/format.h"

namespace ridge::numerics {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Compare, EqualValuesAreInfinitelyGood) {
  const Values x = {1, -2, 0, 3};
  const Comparison result = compare(x, x, DType::kF32);
  EXPECT_EQ(result.snr_db, kInf);
  EXPECT_EQ(result.max_abs_error, 0);
  EXPECT_EQ(result.relative_error, 0);
  EXPECT_NEAR(result.cosine, 1, 1e-15);
  EXPECT_EQ(result.mismatches(), 0);
  EXPECT_EQ(result.count, 4);
}

TEST(Compare, FiguresOfAHandComputedCase) {
  const Values reference = {3, -4}, values = {3, -5};
  const Comparison result = compare(reference, values, DType::kF32);
  EXPECT_NEAR(result.snr_db, 10 * std::log10(25.0), 1e-12);  // 25 / 1: reference first
  EXPECT_EQ(result.max_abs_error, 1);
  EXPECT_EQ(result.max_abs_index, 1);
  EXPECT_EQ(result.max_relative_error, 0.25);
  EXPECT_NEAR(result.rms_error, std::sqrt(0.5), 1e-15);
  EXPECT_NEAR(result.relative_error, 0.2, 1e-15);
  EXPECT_NEAR(result.cosine, (9 + 20) / (5 * std::sqrt(34.0)), 1e-15);
  EXPECT_EQ(result.bias, 0.5);  // away from zero
}

TEST(Compare, SnrIsNotSymmetric) {
  const Values a = {1, 1}, b = {2, 2};
  EXPECT_NEAR(compare(a, b, DType::kF32).snr_db, 0, 1e-12);
  EXPECT_NEAR(compare(b, a, DType::kF32).snr_db, 10 * std::log10(4.0), 1e-12);
}

TEST(Compare, TrivialPredictorsScoreBadly) {
  const Values reference = {1, -2, 3, -4}, zeros(4, 0.0);
  EXPECT_NEAR(compare(reference, zeros, DType::kF32).snr_db, 0, 1e-12);
  EXPECT_EQ(compare(reference, zeros, DType::kF32).cosine, 0);
  EXPECT_EQ(compare(zeros, reference, DType::kF32).snr_db, -kInf);
}

TEST(Compare, SpecialsAreCountedByKindAndSign) {
  const Values reference = {kNan, 1, kInf, 2, kInf, kInf, kNan, 7};
  const Values values = {kNan, kNan, kInf, -kInf, -kInf, 5, 3, 7};
  const Comparison result = compare(reference, values, DType::kF32);
  EXPECT_EQ(result.nan_unexpected, 1);
  EXPECT_EQ(result.nan_missing, 1);
  EXPECT_EQ(result.inf_unexpected, 1);
  EXPECT_EQ(result.inf_wrong_sign, 1);
  EXPECT_EQ(result.inf_missing, 1);
  EXPECT_EQ(result.mismatches(), 5);
  EXPECT_EQ(result.first_mismatch, 1);
  EXPECT_EQ(result.finite_count, 1);
  EXPECT_EQ(result.describe_mismatches(),
            "1 NaN unexpected, 1 NaN missing, 1 Inf unexpected, 1 Inf missing, 1 Inf of the wrong sign, first at 1");
}

TEST(Compare, AllNanOutputIsNotAgreement) {
  const Values reference = {1, 2}, values = {kNan, kNan};
  EXPECT_EQ(compare(reference, values, DType::kF32).mismatches(), 2);
}

TEST(Compare, LimitsGiveTheWorstRatioAndItsPlace) {
  const Values reference = {1, 1, 1}, values = {1.1, 1.3, 1}, allowed = {0.2, 0.2, 0};
  const Comparison result = compare(reference, values, DType::kF32, allowed);
  EXPECT_NEAR(result.max_error_ratio, 1.5, 1e-9);
  EXPECT_EQ(result.max_ratio_index, 1);
  const Values nan_limit = {kNan, 1, 1};
  EXPECT_EQ(compare(reference, values, DType::kF32, nan_limit).max_error_ratio, kInf);
}

TEST(Compare, UlpErrorUsesTheSpacingOfTheDtype) {
  const Values reference = {1, 0}, values = {1 + 0x1p-7, 0};
  EXPECT_EQ(compare(reference, values, DType::kBf16).max_ulp_error, 1);
  EXPECT_EQ(compare(reference, values, DType::kF32).max_ulp_error, 0x1p16);
}

TEST(Compare, NothingToCompareIsHarmless) {
  const Comparison result = compare({}, {}, DType::kF32);
  EXPECT_EQ(result.count, 0);
  EXPECT_EQ(result.mismatches(), 0);
  EXPECT_TRUE(std::isfinite(result.rms_error));
}

TEST(UlpDistance, CountsStepsThroughZeroAndSubnormals) {
  EXPECT_EQ(ulp_distance(DType::kF32, 0.0, -0.0), 0);
  EXPECT_EQ(ulp_distance(DType::kF32, 0x1p-149, -0x1p-149), 2);
  EXPECT_EQ(ulp_distance(DType::kE2m1, -6, 6), 14);
  EXPECT_EQ(ulp_distance(DType::kE8m0, 1, 8), 3);
  EXPECT_EQ(ulp_distance(DType::kI32, -2, 5), 7);
  EXPECT_EQ(ulp_distance(DType::kF16, 1, kNan), -1);
}

TEST(UlpDistance, NeighbouringCodesAreOneApart) {
  for (const DType dtype : {DType::kF16, DType::kBf16, DType::kE4m3fn, DType::kE5m2, DType::kE4m3fnuz}) {
    for (std::uint64_t code = 0; code < format_of(dtype).max_code; ++code) {
      ASSERT_EQ(ulp_distance(dtype, decode(dtype, code), decode(dtype, code + 1)), 1) << to_string(dtype) << code;
    }
  }
}

}  // namespace
}  // namespace ridge::numerics
