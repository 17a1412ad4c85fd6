// The judgement of an output as a pure function: what each line refuses, and what no line may refuse.
#include "evaluate/judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "evaluate/verify.h"
#include "measure/quads.h"
#include "numerics/convert.h"
#include "numerics/fill.h"
#include "numerics/format.h"

namespace ridge::evaluate {
namespace {

using record::Defence;

constexpr double kInf = std::numeric_limits<double>::infinity();

// `count` values with an ideal error of 1e-6 and a bound of a hundred times that.
ops::ReferenceOutput reference_of(std::size_t count) {
  ops::ReferenceOutput reference;
  measure::Coin coin(7);
  for (std::size_t i = 0; i < count; ++i) {
    reference.value.push_back((coin.flip() ? 1.0 : -1.0) * (1.0 + static_cast<double>(coin.below(1000)) * 1e-3));
    reference.allowed.push_back(1e-4);
    reference.ideal_square.push_back(1e-12);
  }
  return reference;
}

std::vector<double> with_errors(const ops::ReferenceOutput& reference, double size, bool leaning) {
  std::vector<double> found = reference.value;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double sign = leaning ? std::copysign(1.0, found[i]) : i % 2 == 0 ? 1.0 : -1.0;
    found[i] -= sign * size;
  }
  return found;
}

TEST(Judge, PassesErrorsOfTheIdealKernel) {
  const auto reference = reference_of(1000);
  const Judgement verdict = judge(with_errors(reference, 1e-6, false), reference, DType::kF32);
  EXPECT_TRUE(verdict.right());
  EXPECT_NEAR(verdict.rms_ratio, 1.0, 1e-6);
}

TEST(Judge, RefusesThreeTimesTheIdealErrorThoughEveryElementIsWithinItsBound) {
  const auto reference = reference_of(1000);
  const Judgement verdict = judge(with_errors(reference, 3e-6, false), reference, DType::kF32);
  EXPECT_EQ(verdict.gate, Defence::kRms);
  EXPECT_LT(verdict.error_ratio, 1.0);
  EXPECT_TRUE(
      judge(with_errors(reference, 3e-6, false), reference, DType::kF32, Defences().without(Defence::kRms)).right());
}

TEST(Judge, IsCarefulWithFewElements) {
  const auto one = reference_of(1);
  EXPECT_TRUE(judge(with_errors(one, 5e-6, false), one, DType::kF32).right()) << "a single error is a matter of luck";
  EXPECT_EQ(judge(with_errors(one, 2e-5, false), one, DType::kF32).gate, Defence::kRms);
}

TEST(Judge, RefusesErrorsThatLeanToOneSide) {
  const auto reference = reference_of(1000);
  EXPECT_EQ(judge(with_errors(reference, 1e-6, true), reference, DType::kF32).gate, Defence::kBias);
  EXPECT_TRUE(judge(with_errors(reference, 1e-7, true), reference, DType::kF32).right());
}

TEST(Judge, RefusesOneElementBeyondItsBound) {
  const auto reference = reference_of(100000);
  std::vector<double> found = reference.value;
  found[77] += 1.01e-4;
  const Judgement verdict = judge(found, reference, DType::kF32);
  EXPECT_EQ(verdict.gate, Defence::kElementBound);
  EXPECT_EQ(verdict.worst, 77);
  EXPECT_EQ(verdict.wrong, 1);
}

TEST(Judge, HoldsNanAndInfinityToKindAndSign) {
  auto reference = reference_of(3);
  reference.value = {std::nan(""), kInf, 1.0};
  const auto gate = [&](double a, double b, double c) {
    return judge(std::vector<double>{a, b, c}, reference, DType::kF32).gate;
  };
  EXPECT_EQ(gate(std::nan(""), kInf, 1.0), Defence::kNone);
  EXPECT_EQ(gate(0.0, kInf, 1.0), Defence::kNonfinite);
  EXPECT_EQ(gate(std::nan(""), -kInf, 1.0), Defence::kNonfinite);
  EXPECT_EQ(gate(std::nan(""), 1e38, 1.0), Defence::kNonfinite);
  EXPECT_EQ(gate(std::nan(""), kInf, std::nan("")), Defence::kNonfinite);
  EXPECT_EQ(gate(std::nan(""), kInf, kInf), Defence::kNonfinite);
}

TEST(Judge, TakesInfinityForAValueThatRoundsToIt) {
  auto reference = reference_of(1);
  reference.value = {70000.0};
  EXPECT_TRUE(judge(std::vector<double>{kInf}, reference, DType::kF16).right());
  EXPECT_FALSE(judge(std::vector<double>{kInf}, reference, DType::kF32).right());
}

class TrivialPredictor : public ::testing::Test {
 protected:
  TrivialPredictor() {
    problem_.operands = {{"x", DType::kF32, {4}, false, false}, {"y", DType::kF32, {4}, true, false}};
    views_[0] = TensorView::contiguous(x_, DType::kF32, {4});
    reference_.allowed.assign(4, 1e-4);
    reference_.ideal_square.assign(4, 1e-12);
  }
  [[nodiscard]] std::string which(std::vector<double> value, std::vector<double> previous = {}) {
    reference_.value = std::move(value);
    return trivial_predictor(problem_, views_, 1, reference_, previous);
  }

  ops::Problem problem_;
  float x_[4] = {1, -2, 3, 4};
  std::array<TensorView, 2> views_;
  ops::ReferenceOutput reference_;
};

TEST_F(TrivialPredictor, IsNamedWhenItPasses) {
  EXPECT_EQ(which({0, 0, 0, 0}), "zeros pass");
  EXPECT_EQ(which({0.5, 0.5, 0.5, 0.5}), "a constant passes");
  EXPECT_EQ(which({1, -2, 3, 4}), "a copy of x passes");
  EXPECT_EQ(which({4, 3, 2, 1}, {4, 3, 2, 1}), "the previous output passes");
  EXPECT_EQ(which({4, 3, 2, 1}, {4, 3, 2, 7}), "");
  EXPECT_EQ(which({4, 3, 2, 1}), "");
}

TEST_F(TrivialPredictor, IsNamedWhenItNearlyPasses) {
  EXPECT_EQ(which({3e-6, -3e-6, 3e-6, 3e-6}), "zeros pass") << "within four times of the limits";
}

// Scales of a small matrix that is one run of equal elements are constant: a constant is right, and another family must
// tell whether it was computed.
class QuantisedScales : public ::testing::Test {
 protected:
  static constexpr std::size_t kScaleT = 4;

  QuantisedScales() : op_(**ops::find_operator("quantize")) {
    problem_ = *op_.bind(*record::parse_case("quantize rows=8 cols=32 dtype=f32 scaling=mx copies=both"));
    for (const ops::OperandSpec& spec : problem_.operands) {
      memory_.emplace_back(size_bytes(spec.dtype, spec.element_count()));
      views_.push_back(TensorView::contiguous(memory_.back().data(), spec.dtype, {spec.shape[0], spec.shape[1]}));
    }
  }

  ops::ReferenceOutput right(numerics::Family family) {
    numerics::fill(views_[0], family, 3);
    return (*op_.reference(problem_, views_))[kScaleT - 1];
  }
  std::string trivial(const ops::ReferenceOutput& reference) {
    return trivial_predictor(problem_, views_, kScaleT, reference, {});
  }

  const ops::Operator& op_;
  ops::Problem problem_;
  std::vector<std::vector<unsigned char>> memory_;
  std::vector<TensorView> views_;
};

TEST_F(QuantisedScales, AreShownByAnotherFamilyWhereOneMakesThemConstant) {
  const std::string constant = trivial(right(numerics::Family::kConstantBlocks));
  const std::string varied = trivial(right(numerics::Family::kSpikes));
  ASSERT_NE(constant, "");
  ASSERT_EQ(varied, "");
  for (const bool constant_first : {true, false}) {
    Evidence evidence;
    evidence.add(kScaleT, constant_first ? constant : varied);
    EXPECT_EQ(evidence.missing(), constant_first ? constant : "");
    evidence.add(kScaleT, constant_first ? varied : constant);
    EXPECT_EQ(evidence.missing(), "");
  }
}

TEST_F(QuantisedScales, StayOpenWhateverIsShownOfTheCodes) {
  Evidence evidence;
  evidence.add(kScaleT - 1, "");
  evidence.add(kScaleT, "a constant would pass for scale_t");
  evidence.add(kScaleT, "a constant would pass for scale_t");
  EXPECT_EQ(evidence.missing(), "a constant would pass for scale_t");
}

TEST_F(QuantisedScales, AreWrongWhereAKernelAlwaysWritesTheConstant) {
  const ops::ReferenceOutput constant = right(numerics::Family::kConstantBlocks);
  const std::vector<double> written(constant.value.size(), constant.value[0]);
  EXPECT_TRUE(judge(written, constant, DType::kE8m0).right());
  EXPECT_EQ(judge(written, right(numerics::Family::kSpikes), DType::kE8m0).gate, Defence::kElementBound);
}

}  // namespace
}  // namespace ridge::evaluate
