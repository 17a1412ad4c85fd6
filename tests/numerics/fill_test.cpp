#include "numerics/fill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

#include "numerics/convert.h"
#include "numerics/format.h"

namespace ridge::numerics {
namespace {

std::vector<double> filled(DType dtype, Family family, std::uint64_t seed, std::int64_t count) {
  std::vector<char> memory(size_bytes(dtype, count));
  const TensorView view = TensorView::contiguous(memory.data(), dtype, {count});
  fill(view, family, seed);
  return to_doubles(view);
}

double mean_of(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double moment(const std::vector<double>& x, int power) {
  double sum = 0;
  for (const double v : x) sum += std::pow(v, power);
  return sum / static_cast<double>(x.size());
}

TEST(Fill, SameSeedSameValuesOtherSeedOtherValues) {
  for (const Family family : kAllFamilies) {
    const auto first = filled(DType::kF32, family, 1, 5000);
    EXPECT_EQ(first, filled(DType::kF32, family, 1, 5000)) << to_string(family);
    EXPECT_NE(first, filled(DType::kF32, family, 2, 5000)) << to_string(family);
  }
}

TEST(Fill, EveryTypeAndFamilyIsFiniteAndNotConstantZero) {
  for (const DType dtype : kAllDTypes) {
    for (const Family family : kAllFamilies) {
      const auto values = filled(dtype, family, 3, 4096);
      EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); }))
          << to_string(dtype) << " " << to_string(family);
      EXPECT_GT(*std::max_element(values.begin(), values.end()), 0) << to_string(dtype) << " " << to_string(family);
    }
  }
}

TEST(Fill, AShorterFillIsAPrefixOfALongerOne) {
  for (const Family family : kAllFamilies) {
    const auto all = filled(DType::kF32, family, 4, 9000);
    for (const std::int64_t count : {1, 2, 15, 17, 4095, 4096, 4097}) {
      const auto part = filled(DType::kF32, family, 4, count);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin())) << to_string(family) << " " << count;
    }
  }
}

TEST(Fill, StridesChangeNoValueAndPaddingIsUntouched) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kE2m1, DType::kF64}) {
    constexpr std::int64_t kRows = 37, kCols = 301, kStride = 310;
    std::vector<unsigned char> memory(size_bytes(dtype, kRows * kStride), 0x5a), untouched = memory;
    fill(TensorView::matrix(memory.data(), dtype, kRows, kCols, kStride), Family::kMixture, 5);
    const auto got = to_doubles(TensorView::matrix(memory.data(), dtype, kRows, kCols, kStride));
    EXPECT_EQ(got, filled(dtype, Family::kMixture, 5, kRows * kCols)) << to_string(dtype);
    const auto gap = [&](const std::vector<unsigned char>& m) {
      return to_doubles(TensorView::matrix(const_cast<unsigned char*>(m.data()), dtype, kRows, kStride, kStride));
    };
    const auto after = gap(memory), before = gap(untouched);
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t col = kCols; col < kStride; ++col) {
        const auto i = static_cast<std::size_t>(row * kStride + col);
        ASSERT_EQ(after[i], before[i]) << to_string(dtype);
      }
    }
  }
}

TEST(Fill, GenerateStartsAnywhere) {
  for (const Family family : kAllFamilies) {
    std::vector<float> all(10000), part(3000);
    generate(family, 6, 0, all);
    generate(family, 6, 3333, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 3333)) << to_string(family);
  }
}

TEST(Fill, NormalHasTheMomentsOfANormal) {
  const auto x = filled(DType::kF32, Family::kNormal, 7, 1 << 18);
  EXPECT_NEAR(mean_of(x), 0, 0.01);
  EXPECT_NEAR(moment(x, 2), 1, 0.02);
  EXPECT_NEAR(moment(x, 4), 3, 0.1);
}

TEST(Fill, UniformCoversItsRange) {
  const auto x = filled(DType::kF32, Family::kUniform, 8, 1 << 18);
  EXPECT_NEAR(mean_of(x), 0, 0.01);
  EXPECT_NEAR(moment(x, 2), 1.0 / 3, 0.01);
  EXPECT_LT(*std::max_element(x.begin(), x.end()), 1);
  EXPECT_GE(*std::min_element(x.begin(), x.end()), -1);
}

TEST(Fill, ScaledSpansTwentyFourBinades) {
  const auto x = filled(DType::kF32, Family::kScaled, 9, 1 << 16);
  EXPECT_GT(std::fabs(*std::max_element(x.begin(), x.end())), 4096);
  std::set<int> scales;
  for (std::size_t run = 0; run < x.size(); run += 256) {
    double squares = 0;
    for (std::size_t i = run; i < run + 256; ++i) squares += x[i] * x[i];
    scales.insert(static_cast<int>(std::lround(std::log2(std::sqrt(squares / 256)))));
  }
  EXPECT_GE(scales.size(), 24U);
}

TEST(Fill, HeavyTailsAreHeavy) {
  const auto x = filled(DType::kF32, Family::kHeavyTails, 10, 1 << 18);
  EXPECT_GT(*std::max_element(x.begin(), x.end()), 50);
}

TEST(Fill, SpikesAreRareLargeAndAlwaysThere) {
  const auto x = filled(DType::kF32, Family::kSpikes, 11, 1 << 18);
  const auto spikes = std::count_if(x.begin(), x.end(), [](double v) { return std::fabs(v) >= 16; });
  EXPECT_NEAR(static_cast<double>(spikes), 256, 80);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto tiny = filled(DType::kF32, Family::kSpikes, seed, 2);
    EXPECT_GE(std::max(std::fabs(tiny[0]), std::fabs(tiny[1])), 16);
  }
}

TEST(Fill, DenormalsAreSubnormalInTheirOwnType) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBf16, DType::kE4m3fn, DType::kE5m2fnuz}) {
    const auto x = filled(dtype, Family::kDenormals, 12, 8192);
    const auto tiny =
        std::count_if(x.begin(), x.end(), [&](double v) { return v != 0 && std::fabs(v) < min_normal(dtype); });
    EXPECT_GT(tiny, 8192 * 0.7) << to_string(dtype);
    EXPECT_LT(tiny, 8192 * 0.85) << to_string(dtype);
  }
}

TEST(Fill, TiesGiveExactSums) {
  const auto x = filled(DType::kBf16, Family::kTies, 13, 4096);
  for (const double v : x) ASSERT_EQ(v * 2, std::round(v * 2));
}

TEST(Mixture, IsNeverZeroOrSubnormalAndHasAFullMantissa) {
  std::vector<float> x(1 << 20);
  generate(Family::kMixture, 14, 0, x);
  int odd = 0;
  for (const float v : x) {
    ASSERT_TRUE(std::isnormal(v));
    odd += static_cast<int>(std::bit_cast<std::uint32_t>(v) & 1U);
  }
  EXPECT_NEAR(odd, 1 << 19, 1 << 13);
}

TEST(Mixture, TailsHaveTheStatedFrequencies) {
  // Several fills: the secret scale must vary, and outliers must be relative to it.
  std::set<double> scales;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto x = filled(DType::kF32, Family::kMixture, seed, 1 << 16);
    auto magnitudes = x;
    for (double& v : magnitudes) v = std::fabs(v);
    std::nth_element(magnitudes.begin(), magnitudes.begin() + (1 << 15), magnitudes.end());
    const double scale = std::exp2(std::round(std::log2(magnitudes[1 << 15] / 0.69)));
    scales.insert(scale);
    const auto beyond = [&](double limit) {
      return static_cast<double>(
          std::count_if(x.begin(), x.end(), [&](double v) { return std::fabs(v) > limit * scale; }));
    };
    EXPECT_NEAR(beyond(3.5), 65536.0 / 64 * 0.66, 120);
    EXPECT_GE(beyond(28), 1);
  }
  EXPECT_EQ(scales.size(), 5U);
}

// A run of small, of equal, or of half numbers lies in every operand, large or small.
TEST(Mixture, HidesARunOfAnotherFamily) {
  int small = 0, equal = 0, halves = 0;
  constexpr int kFills = 200;
  for (std::uint64_t seed = 0; seed < kFills; ++seed) {
    const auto x = filled(DType::kF32, Family::kMixture, seed, 4096);
    int best_small = 0, best_equal = 0, best_halves = 0, run_small = 0, run_equal = 0, run_halves = 0;
    for (std::size_t i = 1; i < x.size(); ++i) {
      run_small = std::fabs(x[i]) < 0.14 ? run_small + 1 : 0;  // 3.5 * 64 is rare, 2 the largest scale
      run_equal = x[i] == x[i - 1] ? run_equal + 1 : 0;
      run_halves = x[i] * 8 == std::round(x[i] * 8) ? run_halves + 1 : 0;
      best_small = std::max(best_small, run_small);
      best_equal = std::max(best_equal, run_equal);
      best_halves = std::max(best_halves, run_halves);
    }
    equal += best_equal >= 63 ? 1 : 0;
    halves += best_halves >= 64 && best_equal < 20 ? 1 : 0;
    small += best_small >= 32 ? 1 : 0;
  }
  EXPECT_NEAR(equal, kFills / 4, 25);
  EXPECT_NEAR(halves, kFills / 4, 25);
  EXPECT_GT(small, kFills / 8);
}

TEST(Mixture, NeighboursAndSeedsAreUncorrelated) {
  const auto x = filled(DType::kF32, Family::kMixture, 15, 1 << 18),
             y = filled(DType::kF32, Family::kMixture, 16, 1 << 18);
  const double power = moment(x, 2);
  for (const std::size_t lag : {1, 15, 16, 17, 48, 4096}) {
    double sum = 0;
    for (std::size_t i = lag; i < x.size(); ++i) sum += x[i] * x[i - lag];
    EXPECT_NEAR(sum / static_cast<double>(x.size()) / power, 0, 0.02) << lag;
  }
  double cross = 0;
  for (std::size_t i = 0; i < x.size(); ++i) cross += x[i] * y[i];
  EXPECT_NEAR(cross / static_cast<double>(x.size()) / std::sqrt(power * moment(y, 2)), 0, 0.02);
}

// Every timed call gets a fresh input, so this is on the clock of the whole campaign. The bound is far below what is
// measured (see RecordProperty) because the test machine may be busy.
TEST(Mixture, IsFastEnoughToRefillEveryCall) {
  if (std::string_view(bulk_conversion_isa()) == "portable") GTEST_SKIP() << "the rate is for processors with AVX2";
  std::vector<float> memory(1 << 22);
  const TensorView view = TensorView::contiguous(memory.data(), DType::kF32, {1 << 22});
  double best = 1e9;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto start = std::chrono::steady_clock::now();
    fill(view, Family::kMixture, seed);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const double rate = static_cast<double>(memory.size() * sizeof(float)) / best;
  RecordProperty("gigabytes_per_second", std::to_string(rate / 1e9));
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_GT(rate, 0.5e9) << bulk_conversion_isa();
#endif
}

}  // namespace
}  // namespace ridge::numerics
