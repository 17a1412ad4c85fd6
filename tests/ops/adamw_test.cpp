// What is particular to adamw: many steps against the formulas in fp64, what a step may not touch, what the check after
// every launch catches, and what the arguments' check says.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "dispatch/launch.h"
#include "ops/harness.h"
#include "record/case.h"
#include "ridge/ops/adamw.h"

namespace ridge::testing {
namespace {

const ops::Operator& adamw_operator() { return **ops::find_operator("adamw"); }
ops::Problem bound(const std::string& more) { return *adamw_operator().bind(*record::parse_case("adamw " + more)); }

// A tensor in f32 and the arguments of a step of it.
struct Trained {
  explicit Trained(std::size_t count) : param(count), grad(count), mean(count), square(count), master(count) {}
  std::vector<float> param, grad, mean, square, master;
  float factor = 0.5F, skip = 0;
  static TensorView view(std::vector<float>& numbers) {
    return TensorView::contiguous(numbers.data(), DType::kF32, {std::ssize(numbers)});
  }
  AdamwArgs args() {
    AdamwArgs args;
    args.param = view(param), args.grad = view(grad), args.exp_avg = view(mean), args.exp_avg_sq = view(square);
    return args;
  }
};

TEST(Adamw, FollowsTheFormulasOverManySteps) {
  constexpr std::size_t kCount = 2500;
  Trained t(kCount);
  std::vector<double> p(kCount), m(kCount), v(kCount);
  for (std::size_t i = 0; i < kCount; ++i) p[i] = t.param[i] = static_cast<float>(std::sin(static_cast<double>(i)));
  AdamwArgs args = t.args();
  args.factor = TensorView::contiguous(&t.factor, DType::kF32, {1});
  args.lr = 0.05, args.weight_decay = 0.2, args.beta1 = 0.8, args.beta2 = 0.95, args.eps = 1e-3;
  for (int step = 1; step <= 50; ++step) {
    args.step = step;
    const double first = 1 - std::pow(args.beta1, step), second = 1 - std::pow(args.beta2, step);
    for (std::size_t i = 0; i < kCount; ++i) {
      t.grad[i] = static_cast<float>(std::cos(static_cast<double>(i * 7 + static_cast<std::size_t>(step))));
      const double g = 0.5 * t.grad[i];
      m[i] = args.beta1 * m[i] + (1 - args.beta1) * g;
      v[i] = args.beta2 * v[i] + (1 - args.beta2) * g * g;
      p[i] =
          p[i] * (1 - args.lr * args.weight_decay) - args.lr * (m[i] / first) / (std::sqrt(v[i] / second) + args.eps);
    }
    const Status status = adamw(args, Stream::cpu(2));
    ASSERT_TRUE(status.ok()) << status.error().text();
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(t.param[i], p[i], 2e-5) << i;
    ASSERT_NEAR(t.mean[i], m[i], 1e-6) << i;
    ASSERT_NEAR(t.square[i], v[i], 1e-6) << i;
  }
}

// Steps smaller than half a step of bf16 add up in the master and would be lost in param.
TEST(Adamw, AMasterKeepsStepsThatItsCopyInBf16CannotShow) {
  std::vector<std::uint16_t> param(64, 0x3f80);  // 1
  Trained t(64);
  t.master.assign(64, 1);
  t.grad.assign(64, 1);
  AdamwArgs args = t.args();
  args.param = TensorView::contiguous(param.data(), DType::kBf16, {64});
  args.master = Trained::view(t.master);
  args.lr = 1e-4, args.weight_decay = 0;
  for (int step = 1; step <= 60; ++step) {
    args.step = step;
    ASSERT_TRUE(adamw(args, Stream::cpu()).ok());
  }
  EXPECT_NEAR(t.master[63], 1 - 60e-4, 1e-5);
  EXPECT_EQ(param[63], 0x3f7e);  // 0.9922, the nearest to 0.994
}

TEST(Adamw, SkipLeavesEverythingAsItIs) {
  const ops::Problem problem = bound("count=1500 master=1 skip=1 factor=1");
  Operands operands = make_operands(problem, kPacked, 4);
  const auto named = [&](const char* name) -> Operand& { return operands.all[*problem.position(name)]; };
  named("grad").poison();
  named("skip").assign({1});
  const Operands before = operands;
  const ops::Implementation& own = **ops::find_implementation(adamw_operator(), "cpu_pieces");
  ASSERT_TRUE(own.run(problem, {operands.views(), operands.scalars}, Stream::cpu(2)).ok());
  for (std::size_t i = 0; i < operands.all.size(); ++i) EXPECT_EQ(operands.all[i].bytes(), before.all[i].bytes()) << i;
  named("skip").assign({0});
  ASSERT_TRUE(own.run(problem, {operands.views(), operands.scalars}, Stream::cpu(2)).ok());
  EXPECT_TRUE(std::isnan(named("master").values()[7]));
}

// A scalar that is a little off, a sign, a factor or a decay that is left out.
TEST(Adamw, TheCheckAfterEveryLaunchCatchesEveryScalar) {
  const ops::Operator& op = adamw_operator();
  const ops::Problem problem = bound("count=3000 dtype=f32");
  const std::vector<double> usual = {0.01, 0.9, 0.99, 0.1, 0.1, 0.3, 0.2};
  const auto scalars_with = [&](std::size_t changed, double by) {
    std::vector<record::Scalar> scalars;
    for (std::size_t i = 0; i < usual.size(); ++i) {
      scalars.push_back(record::Scalar::f64(i == changed ? usual[i] * by : usual[i]));
    }
    return scalars;
  };
  for (std::size_t changed = 0; changed <= usual.size(); ++changed) {
    Operands operands = make_operands(problem, kPacked, 30 + changed);
    const Operands before = make_operands(problem, kPacked, 30 + changed);
    ASSERT_TRUE(
        op.implementations.back().run(problem, {operands.views(), scalars_with(changed, 1.001)}, Stream::cpu()).ok());
    const std::vector<TensorView> views = operands.views_with_old(before);
    const auto found = op.spot_check(problem, {views, scalars_with(usual.size(), 1)}, 5);
    ASSERT_TRUE(found.ok());
    if (changed == usual.size()) {
      EXPECT_LE(found->residual, found->allowed);
    } else {
      EXPECT_GT(found->residual, found->allowed) << problem.scalars[changed].name;
    }
  }
}

TEST(Adamw, TheCheckAfterEveryLaunchCatchesWhatIsLeftOut) {
  const ops::Operator& op = adamw_operator();
  for (const std::string left_out : {"factor", "maximize"}) {
    const ops::Problem right = bound("count=3000 " + left_out + "=1"), wrong = bound("count=3000");
    Operands operands = make_operands(right, kPacked, 8);
    if (right.position("factor")) operands.all[*right.position("factor")].assign({0.75});
    const Operands before = make_operands(right, kPacked, 8);
    std::vector<TensorView> views;
    for (const Operand& operand : operands.all) {
      if (wrong.position(operand.spec().name)) views.push_back(operand.view());
    }
    ASSERT_TRUE(op.implementations.back().run(wrong, {views, operands.scalars}, Stream::cpu()).ok());
    const std::vector<TensorView> after = operands.views_with_old(before);
    const auto found = op.spot_check(right, {after, operands.scalars}, 5);
    ASSERT_TRUE(found.ok());
    EXPECT_GT(found->residual, found->allowed) << left_out;
  }
}

TEST(Adamw, SaysWhatIsWrongWithItsArguments) {
  Trained t(16), other(15);
  const auto says = [&](const AdamwArgs& args, const std::string& words) {
    const Status found = adamw(args, Stream::cpu());
    ASSERT_FALSE(found.ok()) << words;
    EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(found.error().text().find(words), std::string::npos) << found.error().text();
  };
  ASSERT_TRUE(adamw(t.args(), Stream::cpu()).ok());
  AdamwArgs args = t.args();
  args.grad = Trained::view(other.grad);
  says(args, "grad is f32 [15]; it must be f32 [16]");
  args = t.args(), args.exp_avg_sq = args.exp_avg;
  says(args, "exp_avg overlaps exp_avg_sq");
  args = t.args(), args.master = args.param;
  says(args, "param overlaps master");
  args = t.args(), args.exp_avg.dtype = args.exp_avg_sq.dtype = DType::kF16;
  says(args, "exp_avg is f16 [16]; this dtype is not supported");
  args = t.args(), args.param.stride[0] = 2;
  says(args, "param is f32 [16]");
  args = t.args(), args.factor = Trained::view(other.grad);
  says(args, "factor is f32 [15]; it must be f32 [1]");
  args = t.args(), args.lr = -1;
  says(args, "lr is -1, which is not possible");
  args = t.args(), args.beta2 = 1;
  says(args, "beta2 is 1, which is not possible");
  args = t.args(), args.eps = std::nan("");
  says(args, "eps is nan, which is not possible");
  args = t.args(), args.weight_decay = HUGE_VAL;
  says(args, "weight_decay is inf, which is not possible");
  args = t.args(), args.step = 0;
  says(args, "step is 0, which is not possible");
}

// Of a list: tensors of several sizes, with a master and without, one without elements.
std::vector<Trained> some_trained() {
  std::vector<Trained> some;
  for (const std::size_t count : {5u, 0u, 3000u, 17u}) {
    Trained& t = some.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) {
      t.param[i] = t.master[i] = static_cast<float>(std::sin(static_cast<double>(i + count)));
      t.grad[i] = static_cast<float>(std::cos(static_cast<double>(3 * i + count)));
    }
  }
  return some;
}
std::vector<AdamwArgs> steps_of(std::vector<Trained>& some) {
  std::vector<AdamwArgs> steps;
  for (Trained& t : some) {
    steps.push_back(t.args());
    if (t.param.size() == 17) steps.back().master = Trained::view(t.master);
  }
  return steps;
}

TEST(Adamw, AListGivesTheBitsOfSingleCalls) {
  std::vector<Trained> apart = some_trained(), together = some_trained();
  for (const AdamwArgs& step : steps_of(apart)) ASSERT_TRUE(adamw(step, Stream::cpu()).ok());
  const Status status = adamw(steps_of(together), Stream::cpu());
  ASSERT_TRUE(status.ok()) << status.error().text();
  for (std::size_t i = 0; i < apart.size(); ++i) {
    EXPECT_EQ(apart[i].param, together[i].param) << i;
    EXPECT_EQ(apart[i].mean, together[i].mean) << i;
    EXPECT_EQ(apart[i].square, together[i].square) << i;
    EXPECT_EQ(apart[i].master, together[i].master) << i;
  }
  EXPECT_TRUE(adamw(std::span<const AdamwArgs>(), Stream::cpu()).ok());
}

TEST(Adamw, AListWithAWrongTensorStepsNoneAndSaysWhich) {
  std::vector<Trained> some = some_trained();
  const std::vector<Trained> before = some;
  std::vector<AdamwArgs> steps = steps_of(some);
  steps[2].grad = Trained::view(some[0].grad);
  const Status status = adamw(steps, Stream::cpu());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().text().find("call 2 of 4: adamw: grad is f32 [5]; it must be f32 [3000]"), std::string::npos)
      << status.error().text();
  for (std::size_t i = 0; i < some.size(); ++i) EXPECT_EQ(some[i].param, before[i].param) << i;
}

}  // namespace
}  // namespace ridge::testing
