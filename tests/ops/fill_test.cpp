#include "ops/fill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "numerics/convert.h"

namespace ridge::ops {
namespace {

using numerics::Family;
using Rule = Fill::Rule;

std::vector<double> filled(const Fill& fill, DType dtype, std::int64_t rows, std::int64_t columns, Family family,
                           std::uint64_t seed) {
  std::vector<std::byte> memory(static_cast<std::size_t>(rows * columns * 8));
  const TensorView view = TensorView::contiguous(memory.data(), dtype, {rows, columns});
  fill_input(fill, view, family, seed);
  return numerics::to_doubles(view);
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

TEST(FillRule, EveryFamilyOfItKeepsToTheRule) {
  for (const Family family : numerics::kAllFamilies) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      for (const double x : filled({Rule::kIndices, 3, 17}, DType::kI32, 5, 40, family, seed)) {
        ASSERT_TRUE(x >= 3 && x <= 17 && x == static_cast<int>(x)) << x;
      }
      for (const double x : filled({Rule::kUniform, -0.5, 2}, DType::kF32, 5, 40, family, seed)) {
        ASSERT_TRUE(x >= -0.5 && x <= 2) << x;
      }
      const std::vector<double> offsets = filled({Rule::kOffsets, 0, 1000}, DType::kI64, 1, 33, family, seed);
      ASSERT_TRUE(std::ranges::is_sorted(offsets));
      ASSERT_EQ(offsets.front(), 0);
      ASSERT_EQ(offsets.back(), 1000);
      const std::vector<double> stepped = filled({Rule::kOffsets, 128, 1024}, DType::kI64, 1, 33, family, seed);
      ASSERT_TRUE(std::ranges::is_sorted(stepped));
      ASSERT_TRUE(std::ranges::all_of(stepped, [](double at) { return std::fmod(at, 128) == 0; }));
      ASSERT_EQ(stepped.back(), 1024);
      const std::vector<double> odds = filled({Rule::kProbabilities}, DType::kF32, 3, 8, family, seed);
      for (std::size_t row = 0; row < 3; ++row) {
        double total = 0;
        for (std::size_t i = 0; i < 8; ++i) {
          ASSERT_GE(odds[8 * row + i], 0);
          total += odds[8 * row + i];
        }
        ASSERT_NEAR(total, 1, 1e-6);
      }
    }
  }
}

TEST(FillRule, SeedsDifferAndFamiliesAreSkewedOrNot) {
  const Fill indices{Rule::kIndices, 0, 63};
  EXPECT_EQ(filled(indices, DType::kI32, 1, 100, Family::kNormal, 1),
            filled(indices, DType::kI32, 1, 100, Family::kNormal, 1));
  EXPECT_NE(filled(indices, DType::kI32, 1, 100, Family::kNormal, 1),
            filled(indices, DType::kI32, 1, 100, Family::kNormal, 2));
  EXPECT_NEAR(sum(filled(indices, DType::kI32, 1, 4000, Family::kNormal, 1)) / 4000, 31.5, 2);
  EXPECT_LT(sum(filled(indices, DType::kI32, 1, 4000, Family::kHeavyTails, 1)) / 4000, 16);
  const std::vector<double> same = filled(indices, DType::kI32, 1, 100, Family::kConstantBlocks, 1);
  EXPECT_EQ(std::set<double>(same.begin(), same.end()).size(), 1u);
  const std::vector<double> all = filled(indices, DType::kI32, 1, 4000, Family::kNormal, 1);
  EXPECT_EQ(std::set<double>(all.begin(), all.end()).size(), 64u) << "the ends are met";
}

TEST(FillRule, OffsetsOfALoadAreTheSameForEveryFamily) {
  using record::GroupLoad;
  const auto counts = [](GroupLoad load, std::size_t groups, Family family) {
    const std::vector<double> at =
        filled({Rule::kOffsets, 0, 1000, load}, DType::kI32, 1, static_cast<std::int64_t>(groups) + 1, family, 1);
    std::vector<double> rows;
    for (std::size_t g = 0; g < groups; ++g) rows.push_back(at[g + 1] - at[g]);
    return rows;
  };
  for (const Family family : {Family::kNormal, Family::kHeavyTails}) {
    EXPECT_EQ(counts(GroupLoad::kUniform, 3, family), (std::vector<double>{333, 334, 333}));
    EXPECT_EQ(counts(GroupLoad::kSkewed, 4, family), (std::vector<double>{0, 28, 222, 750}));
    EXPECT_EQ(counts(GroupLoad::kHalf, 5, family), (std::vector<double>{500, 125, 125, 125, 125}));
    for (const GroupLoad load : {GroupLoad::kUniform, GroupLoad::kSkewed, GroupLoad::kHalf}) {
      EXPECT_EQ(counts(load, 1, family), std::vector<double>{1000});
    }
  }
}

TEST(FillRule, SmallAndEmptyOperands) {
  EXPECT_TRUE(filled({Rule::kOffsets, 0, 5}, DType::kI32, 1, 0, Family::kNormal, 1).empty());
  EXPECT_EQ(filled({Rule::kOffsets, 0, 5}, DType::kI32, 1, 1, Family::kNormal, 1), std::vector<double>{0});
  EXPECT_EQ(filled({Rule::kOffsets, 0, 5}, DType::kI32, 1, 2, Family::kNormal, 1), (std::vector<double>{0, 5}));
  EXPECT_EQ(filled({Rule::kIndices, 4, 4}, DType::kU8, 1, 3, Family::kNormal, 1), (std::vector<double>{4, 4, 4}));
}

// Seeds: all 64 bits, and not a number that a double rounded.
TEST(FillRule, WholeNumbersWithoutARuleAreAnyBits) {
  std::uint64_t words[256] = {}, seen = 0, common = ~std::uint64_t{0};
  fill_input({}, TensorView::contiguous(words, DType::kU64, {256}), Family::kNormal, 7);
  for (const std::uint64_t word : words) {
    seen |= word;
    common &= word;
  }
  EXPECT_EQ(seen, ~std::uint64_t{0});
  EXPECT_EQ(common, 0u);
}

}  // namespace
}  // namespace ridge::ops
