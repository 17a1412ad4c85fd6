// Errors that lean to one side: what is refused, with which power, and what must never be.
#include "numerics/bias.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "numerics/convert.h"
#include "numerics/format.h"
#include "numerics/philox.h"

namespace ridge::numerics {
namespace {

const double kDeviations = std::sqrt(2 * std::log(2 / kBiasFalseAlarm));

class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}
  double uniform() { return (philox_word(seed_, next_++) + 0.5) * 0x1p-32; }
  double sign() { return uniform() < 0.5 ? -1.0 : 1.0; }

 private:
  std::uint64_t seed_, next_ = 0;
};

double ideal_square(DType dtype, double value) { return ulp(dtype, value) * ulp(dtype, value) / 12; }

// The output type's neighbour of `value` on the side of zero.
double towards_zero(DType dtype, double value) {
  const double step = ulp(dtype, value);
  return std::trunc(value / step) * step;
}

using Store = std::function<double(DType, double)>;

BiasVerdict verdict_of(DType dtype, std::size_t count, std::uint64_t seed, const Store& store) {
  Random random(seed);
  BiasTest test(dtype);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = random.sign() * std::ldexp(1 + random.uniform(), static_cast<int>(random.uniform() * 6));
    test.add(store(dtype, value), value, ideal_square(dtype, value));
  }
  return test.verdict();
}

constexpr DType kTypes[] = {DType::kF32, DType::kBf16, DType::kF16};
constexpr std::uint64_t kOutputs = 1000;

// Half of the values round the other way. With K of 256 that do, the excess over the rounded values is
// (sqrt(12) K - 25.6) / sqrt(12 K), which is below t for K <= 70 only: of a binomial number with mean 128 and standard
// deviation 8, a chance of 10^-12. The margin is held as well as the refusal.
TEST(Bias, RefusesTruncationOf256ElementsEveryTime) {
  for (const DType dtype : kTypes) {
    for (std::uint64_t seed = 1; seed <= kOutputs; ++seed) {
      const BiasVerdict verdict = verdict_of(dtype, 256, seed, towards_zero);
      ASSERT_TRUE(verdict.leans()) << to_string(dtype) << " seed " << seed;
      ASSERT_GT(verdict.excess, kDeviations + 1) << to_string(dtype) << " seed " << seed;
    }
  }
}

TEST(Bias, RefusesRoundingAwayFromZero) {
  const auto away = [](DType dtype, double value) {
    return towards_zero(dtype, value) + std::copysign(ulp(dtype, value), value);
  };
  for (std::uint64_t seed = 1; seed <= kOutputs; ++seed) ASSERT_TRUE(verdict_of(DType::kBf16, 256, seed, away).leans());
}

TEST(Bias, RefusesALeanOfAFifthOfTheIdealError) {
  Random random(5);
  const auto leaning = [&](DType dtype, double value) {
    return value + (random.uniform() - 0.5 + std::copysign(0.2, value) / std::sqrt(12.0)) * ulp(dtype, value);
  };
  EXPECT_TRUE(verdict_of(DType::kF32, 20000, 3, leaning).leans());
}

TEST(Bias, PassesRoundingToNearest) {
  const auto nearest = [](DType dtype, double value) { return round_to(dtype, value); };
  for (const DType dtype : kTypes) {
    for (std::uint64_t seed = 1; seed <= kOutputs; ++seed) {
      ASSERT_LE(verdict_of(dtype, 1 + seed % 500, seed, nearest).excess, 0.0) << "the rounding is known exactly";
    }
  }
}

// The bound that the rate of false alarms rests on, where it can be observed: independent symmetric errors of any size
// exceed x standard deviations in at most 2 exp(-x^2 / 2) of all outputs.
TEST(Bias, IsExceededAsRarelyAsTheBoundSays) {
  constexpr std::uint64_t kTrials = 4000;
  std::size_t beyond[4] = {};
  for (std::uint64_t seed = 1; seed <= kTrials; ++seed) {
    Random random(seed);
    const auto heavy = [&](DType, double value) { return value + random.sign() * 1e-3 / std::sqrt(random.uniform()); };
    BiasTest test(DType::kF32);
    for (int i = 0; i < 200; ++i) {
      const double value = 1 + random.uniform();
      test.add(heavy(DType::kF32, value), value, 1e-12);
    }
    const BiasVerdict verdict = test.verdict();
    for (int x = 1; x <= 4; ++x) beyond[x - 1] += verdict.excess > x ? 1 : 0;
  }
  for (int x = 1; x <= 4; ++x) {
    const double bound = 2 * std::exp(-x * x / 2.0) * kTrials;
    EXPECT_LE(static_cast<double>(beyond[x - 1]), bound + 4 * std::sqrt(bound)) << x << " deviations";
  }
}

// What called right kernels wrong: many elements, few values, each with one error.
TEST(Bias, TakesCopiesOfOneErrorForOne) {
  BiasTest test(DType::kF32);
  for (int i = 0; i < 100000; ++i) {
    const double value = std::ldexp(1.0 + 0.125 * (i % 6), i % 3) * (i % 2 == 0 ? 1 : -1);
    test.add(value * (1 + 0x1p-23), value, ideal_square(DType::kF32, value));
  }
  EXPECT_FALSE(test.verdict().leans());
}

// silu(x) lies just below x: wherever x is a tie between two bf16 numbers, the right result is the lower one.
TEST(Bias, PassesActivationsJustBelowATie) {
  BiasTest exact(DType::kBf16), dithered(DType::kBf16);
  Random random(9);
  for (int i = 0; i < 20000; ++i) {
    const double tie = 8 + (i % 128) * 0x1p-4 + 0x1p-5, value = std::ldexp(tie, i / 128 % 3) * (1 - 0x1p-18);
    exact.add(round_to(DType::kBf16, value), value, ideal_square(DType::kBf16, value));
    dithered.add(round_to(DType::kBf16, value * (1 + random.sign() * 0x1p-17)), value,
                 ideal_square(DType::kBf16, value));
  }
  EXPECT_FALSE(exact.verdict().leans());
  EXPECT_FALSE(dithered.verdict().leans());
}

TEST(Bias, AllowsWhatTheModelSaysMayHaveOneDirection) {
  BiasTest without(DType::kF32), with(DType::kF32);
  Random random(2);
  for (int i = 0; i < 2000; ++i) {
    const double value = 1 + random.uniform();
    without.add(value + 1e-6, value, 1e-12);
    with.add(value + 1e-6, value, 1e-12, 1e-6);
  }
  EXPECT_TRUE(without.verdict().leans());
  EXPECT_FALSE(with.verdict().leans());
}

TEST(Bias, SaysNothingOfNothing) { EXPECT_FALSE(BiasTest(DType::kF32).verdict().leans()); }

TEST(Bias, PutsValuesThatRoundAlikeIntoOneBucket) {
  const auto bucket = [](double x) { return bias_bucket(std::bit_cast<std::uint64_t>(x)); };
  EXPECT_EQ(bucket(1.375), bucket(-1.375));
  EXPECT_EQ(bucket(1.375), bucket(2.75));
  EXPECT_NE(bucket(1.375), bucket(1.5));
}

}  // namespace
}  // namespace ridge::numerics
