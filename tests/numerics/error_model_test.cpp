#include "numerics/error_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <vector>

#include "numerics/bias.h"
#include "numerics/convert.h"
#include "numerics/fill.h"

namespace ridge::numerics {
namespace {

constexpr std::int64_t kRows = 24, kLength = 4096;

// C = A B^T, A and B [24, 4096] in `dtype`; the reference with its two moments, and the model's limits.
struct Problem {
  explicit Problem(DType dtype, Family family = Family::kNormal) : output(dtype) {
    for (auto* operand : {&a, &b}) {
      std::vector<char> memory(size_bytes(dtype, kRows * kLength));
      const TensorView view = TensorView::contiguous(memory.data(), dtype, {kRows, kLength});
      fill(view, family, operand == &a ? 1 : 2);
      operand->resize(static_cast<std::size_t>(kRows * kLength));
      to_float(dtype, memory.data(), operand->data(), kRows * kLength);
    }
    const Reduction reduction{.accumulate = DType::kF32, .output = output, .length = kLength};
    for_each([&](const float* x, const float* y) {
      double sum = 0, magnitude = 0, squares = 0;
      for (std::int64_t i = 0; i < kLength; ++i) {
        const double product = static_cast<double>(x[i]) * static_cast<double>(y[i]);
        sum += product;
        magnitude += std::fabs(product);
        squares += product * product;
      }
      reference.push_back(sum);
      allowed.push_back(element_bound(reduction, sum, magnitude));
      allowed_mixed.push_back(element_bound_mixed_signs(reduction, sum, squares));
      ideal_square.push_back(ideal_square_error(reduction, sum, squares));
      ideal_rms += ideal_square.back();
    });
    ideal_rms = std::sqrt(ideal_rms / static_cast<double>(reference.size()));
  }

  void for_each(const std::function<void(const float*, const float*)>& visit) const {
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kRows; ++j) visit(a.data() + i * kLength, b.data() + j * kLength);
    }
  }

  DType output;
  std::vector<float> a, b;
  std::vector<double> reference, allowed, allowed_mixed, ideal_square;
  double ideal_rms = 0;
};

struct Score {
  double element = 0, mixed = 0, rms = 0, bias = 0;  // found over allowed
  [[nodiscard]] bool passes() const { return element <= 1 && mixed <= 1 && rms <= 1 && bias <= 1; }
};

using Dot = std::function<float(const float*, const float*)>;

Score score(const Problem& problem, const Dot& dot, bool truncate = false) {
  std::vector<double> values;
  BiasTest bias(problem.output);
  problem.for_each([&](const float* x, const float* y) {
    double value = static_cast<double>(dot(x, y));
    double stored = round_to(problem.output, value);
    if (truncate && std::fabs(stored) > std::fabs(value)) {
      stored = round_to(problem.output, value - (stored - value) * 1.01);
    }
    bias.add(stored, problem.reference[values.size()], problem.ideal_square[values.size()]);
    values.push_back(stored);
  });
  const BiasVerdict verdict = bias.verdict();
  double element = 0, mixed = 0, squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = std::fabs(values[i] - problem.reference[i]);
    element = std::max(element, error / problem.allowed[i]);
    mixed = std::max(mixed, error / problem.allowed_mixed[i]);
    squares += error * error;
  }
  const double rms = std::sqrt(squares / static_cast<double>(values.size()));
  EXPECT_TRUE(std::isfinite(rms));
  return {element, mixed, rms / (kRmsFactor * problem.ideal_rms), verdict.mean / verdict.limit};
}

float straight(const float* x, const float* y) {
  float sum = 0;
  for (std::int64_t i = 0; i < kLength; ++i) sum = std::fma(x[i], y[i], sum);
  return sum;
}

float blocked(const float* x, const float* y) {
  float partial[16] = {};
  for (std::int64_t i = 0; i < kLength; ++i) partial[i % 16] += x[i] * y[i];
  float sum = 0;
  for (const float each : partial) sum += each;
  return sum;
}

float to_tf32(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0xfffU + ((bits >> 13) & 1U)) & ~0x1fffU);
}

float tf32(const float* x, const float* y) {
  float sum = 0;
  for (std::int64_t i = 0; i < kLength; ++i) sum = std::fma(to_tf32(x[i]), to_tf32(y[i]), sum);
  return sum;
}

template <DType kAccumulate>
float short_accumulator(const float* x, const float* y) {
  float sum = 0;
  std::uint16_t code = 0;
  for (std::int64_t i = 0; i < kLength; ++i) {
    sum = std::fma(x[i], y[i], sum);
    from_float(kAccumulate, &sum, &code, 1);
    to_float(kAccumulate, &code, &sum, 1);
  }
  return sum;
}

float dropped(const float* x, const float* y) {
  float sum = 0;
  for (std::int64_t i = 0; i < kLength - kLength / 100; ++i) sum = std::fma(x[i], y[i], sum);
  return sum;
}

float bf16_inputs(const float* x, const float* y) {
  float sum = 0;
  for (std::int64_t i = 0; i < kLength; ++i) {
    const auto shorten = [](float v) { return static_cast<float>(round_to(DType::kBf16, static_cast<double>(v))); };
    sum = std::fma(shorten(x[i]), shorten(y[i]), sum);
  }
  return sum;
}

std::string text(const char* what, const Score& s) {
  return fmt::format("{}: element {:.3g}, mixed signs {:.3g}, rms {:.3g}, bias {:.3g} of the allowed", what, s.element,
                     s.mixed, s.rms, s.bias);
}

void expect_pass(const char* what, const Score& s) { EXPECT_TRUE(s.passes()) << text(what, s); }

// Rejected by the element line for mixed signs and by the RMS line, each with a margin and not by luck.
void expect_reject(const char* what, const Score& s) {
  EXPECT_GT(s.mixed, 5) << text(what, s);
  EXPECT_GT(s.rms, 2) << text(what, s);
  ::testing::Test::RecordProperty(what, text(what, s));
}

TEST(ErrorModel, HonestKernelsPassOnEveryFamilyAndOutput) {
  for (const DType output : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const Family family : kAllFamilies) {
      if (output == DType::kF16 && family == Family::kScaled) continue;  // sums overflow f16
      if (output == DType::kF16 && family == Family::kHeavyTails) continue;
      const Problem problem(output, family);
      const std::string where = fmt::format("{} {}", to_string(output), to_string(family));
      expect_pass((where + " straight").c_str(), score(problem, straight));
      expect_pass((where + " blocked").c_str(), score(problem, blocked));
    }
  }
}

TEST(ErrorModel, RejectsTf32ForF32) {
  const Score s = score(Problem(DType::kF32), tf32);
  expect_reject("tf32 for f32", s);
  EXPECT_GT(s.rms, 10);
}

TEST(ErrorModel, RejectsBf16InputsForF32) { expect_reject("bf16 for f32", score(Problem(DType::kF32), bf16_inputs)); }

TEST(ErrorModel, RejectsF16AndBf16Accumulation) {
  for (const DType output : {DType::kF32, DType::kBf16, DType::kF16}) {
    const Problem problem(output);
    const std::string where(to_string(output));
    expect_reject((where + " f16 accumulation").c_str(), score(problem, short_accumulator<DType::kF16>));
    expect_reject((where + " bf16 accumulation").c_str(), score(problem, short_accumulator<DType::kBf16>));
  }
}

TEST(ErrorModel, RejectsADroppedPercentOfK) {
  for (const DType output : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const Family family : {Family::kNormal, Family::kUniform, Family::kMixture}) {
      const std::string where = fmt::format("{} {} dropped 1 %", to_string(output), to_string(family));
      expect_reject(where.c_str(), score(Problem(output, family), dropped));
    }
  }
}

TEST(ErrorModel, RejectsTruncationOfTheOutput) {
  const Score s = score(Problem(DType::kBf16), straight, true);
  EXPECT_GT(s.bias, 1.2) << text("truncated", s);
}

// A straight loop whose every addition is cut off towards zero.
float cut_off(const float* x, const float* y) {
  float sum = 0;
  for (std::int64_t i = 0; i < kLength; ++i) {
    const double exact = static_cast<double>(sum) + static_cast<double>(x[i]) * static_cast<double>(y[i]);
    sum = static_cast<float>(exact);
    if (std::fabs(static_cast<double>(sum)) > std::fabs(exact)) sum = std::nextafter(sum, 0.0F);
  }
  return sum;
}

TEST(ErrorModel, RejectsABiasedAccumulation) {
  for (const Family family : {Family::kNormal, Family::kUniform, Family::kMixture}) {
    const Score s = score(Problem(DType::kF32, family), cut_off);
    EXPECT_GT(s.bias, 1.2) << text("cut off at every step", s);
    EXPECT_GT(s.rms, 1.2) << text("cut off at every step", s);
  }
}

TEST(ErrorModel, BoundGrowsWithEverythingThatMakesErrors) {
  const Reduction base{.accumulate = DType::kF32, .output = DType::kF32, .length = 100};
  Reduction longer = base, shorter_type = base, coarser = base;
  longer.length = 400;
  shorter_type.accumulate = DType::kBf16;
  coarser.output = DType::kBf16;
  const double bound = element_bound(base, 1, 10);
  EXPECT_GT(element_bound(longer, 1, 10), bound);
  EXPECT_GT(element_bound(shorter_type, 1, 10), bound);
  EXPECT_GT(element_bound(coarser, 1, 10), bound);
  EXPECT_GT(element_bound(base, 1, 20), bound);
  EXPECT_NEAR(accumulation_bound(longer, 10) / accumulation_bound(base, 10), 2, 1e-9);
}

TEST(ErrorModel, FewElementsHaveAWiderRmsLimit) {
  EXPECT_NEAR(rms_limit(1), 8.7, 0.1);
  EXPECT_NEAR(rms_limit(100), 2.6, 0.1);
  EXPECT_NEAR(rms_limit(1000000), kRmsFactor, 0.01);
}

TEST(ErrorModel, AnEmptySumMustBeZero) {
  const Reduction empty{.accumulate = DType::kF32, .output = DType::kF32, .length = 0};
  EXPECT_LT(element_bound(empty, 0, 0), 1e-44);
}

TEST(ErrorModel, UnitRoundoffIsHalfAnUlpOfOne) {
  EXPECT_EQ(unit_roundoff(DType::kF32), 0x1p-24);
  EXPECT_EQ(unit_roundoff(DType::kBf16), 0x1p-8);
  EXPECT_EQ(unit_roundoff(DType::kF16), 0x1p-11);
  EXPECT_EQ(unit_roundoff(DType::kE4m3fn), 0x1p-4);
}

TEST(RoundedOnce, AllowsForTheSubnormalsOfFp32OnTheWay) {
  // Just below a tie of bf16, and so close that fp32 rounds it to the tie, which bf16 rounds up.
  const double step = 0x1p-133, value = 99.5 * step - 0x1p-151;
  const float product = static_cast<float>(value);
  const double stored = 100 * step;
  ASSERT_EQ(static_cast<double>(product), 99.5 * step);
  ASSERT_EQ(round_to(DType::kBf16, static_cast<double>(product)), stored);
  const RoundedOnce once = rounded_once(DType::kBf16, value, 0x1p-24);
  EXPECT_LE(std::fabs(stored - once.value), once.allowed);
  EXPECT_GT(std::fabs(stored + step - once.value), once.allowed);  // no further neighbour
  EXPECT_EQ(rounded_once(DType::kBf16, 0, 0x1p-24).value, 0);
  EXPECT_LT(rounded_once(DType::kBf16, 0, 0x1p-24).allowed, 0x1p-140);
}

}  // namespace
}  // namespace ridge::numerics
