// What is particular to activations: every number there is, masked rows that hold garbage, halves of one matrix, what
// the check after every launch catches, and what the arguments' check says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "dispatch/launch.h"
#include "numerics/convert.h"
#include "ops/harness.h"
#include "record/case.h"
#include "ridge/ops/activation.h"
#include "ridge/ops/activation_backward.h"

namespace ridge::testing {
namespace {

const std::vector<std::string> kFunctions = {"silu", "gelu", "gelu_tanh", "relu", "relu2", "clamped_silu"};

const ops::Operator& operator_named(const std::string& name) { return **ops::find_operator(name); }
ops::Problem bound(const std::string& text) {
  const record::Case one = *record::parse_case(text);
  auto problem = operator_named(one.op).bind(one);
  EXPECT_TRUE(problem.ok()) << text << ": " << (problem.ok() ? "" : problem.error().text());
  return *problem;
}
Operand& named(Operands& operands, const std::string& name) {
  for (Operand& operand : operands.all) {
    if (operand.spec().name == name) return operand;
  }
  ADD_FAILURE() << "no operand " << name;
  return operands.all[0];
}

// The numbers of bf16, infinities and NaN among them, in fp32.
std::vector<double> every_bf16() {
  std::vector<double> all;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    all.push_back(static_cast<double>(__builtin_bit_cast(float, bits << 16)));
  }
  return all;
}

// Runs cpu_rows and compares every element with the reference; a row that is not finite is compared by kind.
void expect_right_everywhere(const std::string& text) {
  const ops::Problem problem = bound(text);
  const ops::Operator& op = operator_named(problem.problem_case.op);
  Operands operands = make_operands(problem, kPacked, 3);
  named(operands, "x").assign(every_bf16());
  const auto expected = op.reference(problem, {operands.views(), operands.scalars});
  ASSERT_TRUE(expected.ok());
  const ops::Implementation& rows = **ops::find_implementation(op, "cpu_rows");
  ASSERT_TRUE(rows.run(problem, {operands.views(), operands.scalars}, Stream::cpu()).ok());
  std::size_t output = 0;
  for (const Operand& operand : operands.all) {
    if (!operand.spec().output) continue;
    ops::ReferenceOutput one = (*expected)[output++];
    // Single elements alone: numbers that are spread over all exponents say nothing about the root of the mean square.
    one.ideal_square.assign(one.value.size(), std::numeric_limits<double>::infinity());
    EXPECT_EQ(compare(operand.values(), one, operand.spec().dtype), "") << text << ", " << operand.spec().name;
  }
}

TEST(Activation, IsRightAtEveryNumberOfBf16) {
  for (const std::string& function : kFunctions) {
    for (const char* dtype : {"bf16", "f32", "f16"}) {
      const std::string more = " rows=16 cols=4096 gated=0 function=" + function + " dtype=" + dtype;
      expect_right_everywhere("activation" + more);
      expect_right_everywhere("activation_backward" + more);
    }
  }
}

TEST(Activation, AMaskedRowIsZeroWhateverItHolds) {
  for (const std::string& function : kFunctions) {
    const ops::Problem problem = bound("activation_backward rows=3 cols=70 probs=1 mask=1 function=" + function);
    Operands operands = make_operands(problem, kAwkward, 9);
    for (const char* name : {"dy", "x", "up", "probs"}) {
      Operand& operand = named(operands, name);
      std::vector<double> values = operand.values();
      const std::size_t row = values.size() / 3;
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(row), row, std::nan(""));
      operand.assign(values);
    }
    named(operands, "mask").assign({1, 0, 7});
    const ops::Implementation& rows = **ops::find_implementation(operator_named("activation_backward"), "cpu_rows");
    ASSERT_TRUE(rows.run(problem, {operands.views(), operands.scalars}, Stream::cpu(2)).ok());
    for (const char* name : {"dx", "dup", "dprobs"}) {
      const std::vector<double> values = named(operands, name).values();
      const std::size_t row = values.size() / 3;
      for (std::size_t e = 0; e < values.size(); ++e) {
        EXPECT_TRUE(std::isfinite(values[e])) << function << " " << name << " " << e;
        EXPECT_TRUE(e / row != 1 || values[e] == 0) << function << " " << name << " " << e;
      }
    }
  }
}

// What one function gives in the place of another, a gate that is left out, a factor that is left out.
TEST(Activation, TheCheckAfterEveryLaunchCatchesAnotherFunction) {
  struct Mutant {
    std::string right, wrong;
  };
  std::vector<Mutant> mutants;
  for (const std::string& right : kFunctions) {
    for (const std::string& wrong : kFunctions) {
      if (right != wrong) mutants.push_back({"function=" + right, "function=" + wrong});
    }
  }
  mutants.push_back({"probs=1", "probs=0"});
  for (const char* op_name : {"activation", "activation_backward"}) {
    const ops::Operator& op = operator_named(op_name);
    for (const Mutant& mutant : mutants) {
      const auto problem_of = [&](const std::string& more) {
        return bound(std::string(op_name) + " rows=40 cols=200 dtype=f16 " + more +
                     (op.name == "activation_backward" ? " dprobs=0" : ""));
      };
      const ops::Problem right = problem_of(mutant.right), wrong = problem_of(mutant.wrong);
      Operands operands = make_operands(right, kPacked, 21);
      std::vector<TensorView> views;
      for (const Operand& operand : operands.all) {
        if (wrong.position(operand.spec().name)) views.push_back(operand.view());
      }
      ASSERT_TRUE(op.implementations.back().run(wrong, {views, operands.scalars}, Stream::cpu()).ok());
      const auto found = op.spot_check(right, {operands.views(), operands.scalars}, 5);
      ASSERT_TRUE(found.ok());
      EXPECT_GT(found->residual, found->allowed) << op_name << ": " << mutant.wrong << " for " << mutant.right;
      ASSERT_TRUE(op.implementations.back().run(right, {operands.views(), operands.scalars}, Stream::cpu()).ok());
      const auto again = op.spot_check(right, {operands.views(), operands.scalars}, 6);
      EXPECT_LE(again->residual, again->allowed) << op_name << ": " << mutant.right;
    }
  }
}

// Far from zero the slope of every function is 0 or 1 (of relu2 2 x): an error of a thousandth shows there, too.
TEST(Activation, TheCheckSeesAWrongSlopeFarFromZero) {
  const ops::Operator& op = operator_named("activation_backward");
  for (const char* function : {"silu", "gelu", "gelu_tanh", "relu", "clamped_silu"}) {
    const ops::Problem problem =
        bound(fmt::format("activation_backward rows=4 cols=64 dtype=f32 gated=0 function={}", function));
    Operands operands = make_operands(problem, kPacked, 31);
    std::vector<double> far;
    for (int i = 0; i < 4 * 64; ++i) far.push_back(function == std::string("clamped_silu") ? 6 - i : 30 + 5 * i);
    operands.all[*problem.position("x")].assign(far);
    Operand& dx = operands.all[*problem.position("dx")];
    ASSERT_TRUE(op.implementations.back().run(problem, {operands.views(), operands.scalars}, Stream::cpu()).ok());
    const auto right = op.spot_check(problem, {operands.views(), operands.scalars}, 5);
    EXPECT_LE(right->residual, right->allowed) << function;
    std::vector<double> wrong = dx.values();
    for (double& one : wrong) one *= 1.001;
    dx.assign(wrong);
    const auto found = op.spot_check(problem, {operands.views(), operands.scalars}, 5);
    EXPECT_GT(found->residual, found->allowed) << function;
  }
}

struct Packed {
  std::vector<float> memory = std::vector<float>(5 * 16, 0.5F);
  TensorView half(std::int64_t first) {
    TensorView view = TensorView::contiguous(memory.data() + first, DType::kF32, {5, 8});
    view.stride[0] = 16;
    return view;
  }
};

TEST(Activation, TakesAndGivesTheHalvesOfOneMatrix) {
  Packed x, dx;
  std::vector<float> y(40), dy(40, 1);
  ActivationArgs args{.x = x.half(0), .y = TensorView::contiguous(y.data(), DType::kF32, {5, 8})};
  args.up = x.half(8);
  const Status forward = activation(args, Stream::cpu());
  ASSERT_TRUE(forward.ok()) << forward.error().text();
  EXPECT_NEAR(y[11], 0.5 * 0.5 / (1 + std::exp(-0.5)), 1e-7);
  ActivationBackwardArgs back{.dy = TensorView::contiguous(dy.data(), DType::kF32, {5, 8}), .forward = args};
  back.dx = dx.half(0);
  back.dup = dx.half(8);
  const Status backward = activation_backward(back, Stream::cpu());
  ASSERT_TRUE(backward.ok()) << backward.error().text();
  EXPECT_NEAR(dx.memory[8], 0.5 / (1 + std::exp(-0.5)), 1e-7);
  back.dup = dx.half(4);  // columns 4 .. 11 beside 0 .. 7
  const Status refused = activation_backward(back, Stream::cpu());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text().find("dx overlaps dup"), std::string::npos) << refused.error().text();
}

TEST(Activation, SaysWhatIsWrongWithItsArguments) {
  std::vector<float> memory(4096);
  std::vector<std::uint8_t> bytes(64, 1);
  const auto view = [&](std::int64_t first, std::initializer_list<std::int64_t> shape) {
    return TensorView::contiguous(memory.data() + first, DType::kF32, shape);
  };
  const auto good = [&] { return ActivationArgs{.x = view(0, {8, 16}), .y = view(1024, {8, 16})}; };
  const auto says = [&](const ActivationArgs& args, const std::string& words) {
    const Status found = activation(args, Stream::cpu());
    ASSERT_FALSE(found.ok()) << words;
    EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(found.error().text().find(words), std::string::npos) << found.error().text();
  };
  ASSERT_TRUE(activation(good(), Stream::cpu()).ok());
  ActivationArgs args = good();
  args.x = view(0, {8, 0}), args.y = view(0, {8, 0});
  says(args, "rows of 0 elements");
  args = good(), args.up = view(0, {8, 15});
  says(args, "up is f32 [8, 15]; it must be f32 [8, 16]");
  args = good(), args.probs = view(0, {7});
  says(args, "probs is f32 [7]; it must be f32 [8]");
  args = good(), args.mask = view(0, {8});
  says(args, "mask is f32 [8]; it must be u8 [8]");
  args = good(), args.y = view(64, {8, 16});
  says(args, "y overlaps x");
  args = good(), args.limit = -1;
  says(args, "a limit of -1 is not possible");
  args = good(), args.alpha = std::nan("");
  says(args, "an alpha of nan is not possible");
  args = good(), args.x.dtype = DType::kF64;
  says(args, "this dtype is not supported");

  ActivationBackwardArgs back{.dy = view(2048, {8, 16}), .forward = good()};
  const auto backward_says = [&](const std::string& words) {
    const Status found = activation_backward(back, Stream::cpu());
    ASSERT_FALSE(found.ok()) << words;
    EXPECT_NE(found.error().text().find(words), std::string::npos) << found.error().text();
  };
  backward_says("no gradient is wanted");
  back.dup = view(1024, {8, 16});
  backward_says("dup is wanted and there is no up");
  back.dup = TensorView(), back.dprobs = view(1024, {8});
  backward_says("dprobs is wanted and there are no probs");
}

}  // namespace
}  // namespace ridge::testing
