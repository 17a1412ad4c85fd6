// What the kernels for GPUs compute f and f' with, on the host: within the bounds of the row model where a GPU's
// exponentials and reciprocals are as far off as they may be, to either side.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "ops/row_check.h"
// clang-format off
#include "ops/gating/definition.cuh"
#include "ops/activation/row_model.cuh"
// clang-format on

#define __device__
#define __forceinline__ inline

namespace ridge::cuda {
namespace {

// Steps that special functions are off by: CUDA documents 1 of e^x and 1/x and 2 of 2^x, and powers of two are exact.
struct Slips {
  int power = 0, reciprocal = 0, power_of_two = 0;
};
Slips slips;

float moved(double exact, int steps) {
  auto x = static_cast<float>(exact);
  int exponent = 0;
  if (!std::isfinite(x) || x == 0 || std::frexp(exact, &exponent) == 0.5) return x;
  for (int i = 0; i < std::abs(steps); ++i) x = std::nextafter(x, steps > 0 ? HUGE_VALF : -HUGE_VALF);
  return x;
}
float flushed(float x) { return std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }

float reciprocal(float x) { return flushed(moved(1.0 / static_cast<double>(flushed(x)), slips.reciprocal)); }
float exp2_approx(float x) { return flushed(moved(std::exp2(static_cast<double>(flushed(x))), slips.power_of_two)); }
float slipping_exp(float x) { return moved(std::exp(static_cast<double>(x)), slips.power); }

}  // namespace
}  // namespace ridge::cuda

#define expf slipping_exp
#include "ops/gating/functions.cuh"
#undef expf

namespace ridge::testing {
namespace {

namespace rows = ops::rows;
using cuda::Function;
using cuda::Value;
using ops::activation::Definition;

class Worst {
 public:
  void see(const char* what, float given, float found, const rows::Number& expected) {
    static const rows::Format format = rows::format_of(DType::kF32);
    rows::Stored right;
    const double ratio = rows::error_ratio(format, found, expected, right);
    const bool beyond = std::isinf(found) && std::fabs(right.value) + right.allowed >= format.most;
    if (beyond && std::signbit(found) == std::signbit(right.value)) return;
    if (ratio <= ratio_) return;  // not so of NaN in the place of a number
    ratio_ = std::isnan(ratio) ? HUGE_VAL : ratio;
    text_ = fmt::format("{} of {} is {}, right {}, off by {} of the bound", what, given, found, right.value, ratio);
  }
  [[nodiscard]] double ratio() const { return ratio_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  double ratio_ = 0;
  std::string text_;
};

// Of every number of bf16; `up` and `dy` are of roughly unit size.
template <Function kFunction>
Worst worst_of(float alpha, float limit) {
  const Definition model{static_cast<rows::i64>(kFunction), alpha, limit};
  const cuda::Limits limits{alpha, limit};
  Worst worst;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto given = std::bit_cast<float>(bits << 16);
    const float up = 3 * normal(generator), dy = normal(generator);
    const rows::Exact gate(up), gradient(dy);
    const rows::Number x = rows::Exact(given);
    const Value f = cuda::value_of<kFunction>(given, limits), u = cuda::gate_of<kFunction>(up, limits);
    const rows::Number value = model.value(x), slope = model.slope(x), opened = model.gate(rows::Number(gate));
    const float doubled = kFunction == Function::kRelu2 ? 2 : 1;
    worst.see("f", given, f.f, value);
    worst.see("f'", given, f.slope * doubled, slope);
    worst.see("dx", given, dy * u.f * f.slope * doubled, gradient * slope * opened);
    if (std::fabs(value.value) > std::numeric_limits<float>::max()) continue;  // products leave fp32 on their way
    worst.see("f u", given, f.f * u.f, value * opened);
    worst.see("dup", given, dy * f.f * u.slope, gradient * value * model.gate_slope(rows::Number(gate)));
  }
  return worst;
}

template <Function kFunction>
void expect_within_the_bounds(const char* name) {
  for (int signs = 0; signs < 8; ++signs) {
    const auto slip = [&](int bit, int steps) { return (signs >> bit) % 2 == 0 ? steps : -steps; };
    cuda::slips = {slip(0, 1), slip(1, 1), slip(2, 2)};
    for (const auto& [alpha, limit] : {std::pair{1.702F, 7.0F}, {0.5F, 0.25F}}) {
      const Worst worst = worst_of<kFunction>(alpha, limit);
      EXPECT_LE(worst.ratio(), 1) << name << ", slips " << signs << ": " << worst.text();
      if (kFunction != Function::kClampedSilu) break;
    }
  }
}

TEST(ActivationFunctions, OfAGpuAreWithinTheModelsBounds) {
  expect_within_the_bounds<Function::kSilu>("silu");
  expect_within_the_bounds<Function::kGelu>("gelu");
  expect_within_the_bounds<Function::kGeluTanh>("gelu_tanh");
  expect_within_the_bounds<Function::kRelu>("relu");
  expect_within_the_bounds<Function::kRelu2>("relu2");
  expect_within_the_bounds<Function::kClampedSilu>("clamped_silu");
}

// An exponential that is off by as much as __expf is far from zero: the bounds are sharp enough to see it.
TEST(ActivationFunctions, AnExponentialOfFewerBitsIsSeen) {
  cuda::slips = {40, 0, 0};
  EXPECT_GT(worst_of<Function::kSilu>(1, 1).ratio(), 2);
  cuda::slips = {0, 0, 16};
  EXPECT_GT(worst_of<Function::kGelu>(1, 1).ratio(), 1.5);
  cuda::slips = {};
}

}  // namespace
}  // namespace ridge::testing
