// What is particular to activation_quantize_backward: it is quantize of both gradients that activation_backward
// computes, side by side and without the rounding in between; every number there is, groups in which both halves meet,
// masked rows that hold garbage, halves of one matrix, what the check after every launch catches, and what the
// arguments' check says.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "dispatch/launch.h"
#include "numerics/convert.h"
#include "ops/harness.h"
#include "record/case.h"
#include "ridge/ops/activation_quantize_backward.h"

namespace ridge::testing {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kFunctions = {"silu", "gelu", "gelu_tanh", "relu", "relu2", "clamped_silu"};
const std::vector<std::string> kScalings = {"tensor", "row", "1x128", "128x128", "mx"};

const ops::Operator& op() { return **ops::find_operator("activation_quantize_backward"); }
ops::Problem bound(const std::string& words) {
  auto problem = op().bind(*record::parse_case("activation_quantize_backward " + words));
  EXPECT_TRUE(problem.ok()) << words << ": " << (problem.ok() ? "" : problem.error().text());
  return *problem;
}
Operand& named(Operands& operands, const std::string& name) {
  for (Operand& operand : operands.all) {
    if (operand.spec().name == name) return operand;
  }
  ADD_FAILURE() << "no operand " << name;
  return operands.all[0];
}
const ops::Implementation& panels() { return **ops::find_implementation(op(), "cpu_panels"); }
void run(const ops::Problem& problem, Operands& operands, int threads) {
  ASSERT_TRUE(panels().run(problem, {operands.views(), operands.scalars}, Stream::cpu(threads)).ok());
}

// The numbers of bf16, infinities and NaN among them, each next to those of its size or among all others. The square of
// relu2 leaves fp32, which the model knows of results alone: it goes without a gate.
TEST(ActivationQuantizeBackward, IsRightAtEveryNumberOfBf16) {
  for (const std::string& function : kFunctions) {
    for (const std::string& scaling : kScalings) {
      for (const char* more : {"dtype=bf16", "dtype=f32 format=e5m2", "dtype=f16 scale=even"}) {
        const ops::Problem problem =
            bound(fmt::format("rows=16 cols=4096 copies=both function={} scaling={} {} gated={}", function, scaling,
                              more, function == "relu2" ? 0 : 1));
        Operands operands = make_operands(problem, kPacked, 3);
        std::vector<double> every;
        for (std::uint32_t i = 0; i < 0x10000; ++i) {
          const std::uint32_t bits = scaling == "mx" ? i : i * 40503u % 0x10000;
          every.push_back(static_cast<double>(__builtin_bit_cast(float, bits << 16)));
        }
        named(operands, "x").assign(every);
        const auto expected = op().reference(problem, {operands.views(), operands.scalars});
        ASSERT_TRUE(expected.ok());
        run(problem, operands, 1);
        std::size_t output = 0;
        for (const Operand& operand : operands.all) {
          if (!operand.spec().output) continue;
          EXPECT_EQ(compare(operand.values(), (*expected)[output++], operand.spec().dtype), "")
              << problem.problem_case.text() << ", " << operand.spec().name;
        }
      }
    }
  }
}

// What quantize makes of the fp32 gradients that activation_backward stores as a packed matrix, and not of those that
// it rounds to 16 bits. Groups of 128 meet both halves.
TEST(ActivationQuantizeBackward, IsQuantizeOfBothGradientsWithoutARoundingInBetween) {
  const ops::Operator &first = **ops::find_operator("activation_backward"), &second = **ops::find_operator("quantize");
  constexpr std::size_t kRows = 70, kCols = 300;
  for (const std::string& scaling : kScalings) {
    for (const bool gated : {true, false}) {
      const std::size_t width = gated ? 2 * kCols : kCols;
      const std::string words = fmt::format("rows={} cols={} probs=1 gated={}", kRows, kCols, gated ? 1 : 0);
      const ops::Problem fused = bound(words + " dtype=bf16 copies=both scaling=" + scaling);
      Operands operands = make_operands(fused, kPacked, 17);
      // By the same functions: the inputs are exact in fp32.
      const ops::Problem wide =
          *first.bind(*record::parse_case("activation_backward " + words + " dtype=f32 dprobs=0"));
      Operands gradients = make_operands(wide, kPacked, 17);
      for (const char* name : {"dy", "x", "up", "probs"}) {
        if (gated || std::string_view(name) != "up") named(gradients, name).assign(named(operands, name).values());
      }
      ASSERT_TRUE(first.implementations[0].run(wide, {gradients.views(), operands.scalars}, Stream::cpu()).ok());
      std::vector<double> both;
      const std::vector<double> dx = named(gradients, "dx").values();
      const std::vector<double> dup = gated ? named(gradients, "dup").values() : std::vector<double>();
      for (std::size_t row = 0; row < kRows; ++row) {
        for (const std::vector<double>* half : {&dx, &dup}) {
          if (half->empty()) continue;
          both.insert(both.end(), half->begin() + static_cast<std::ptrdiff_t>(row * kCols),
                      half->begin() + static_cast<std::ptrdiff_t>((row + 1) * kCols));
        }
      }
      const auto quantised = [&](const char* dtype) {
        const ops::Problem problem = *second.bind(
            *record::parse_case(fmt::format("quantize rows={} cols={} dtype={} copies=both scaling={}{}", kRows, width,
                                            dtype, scaling, scaling == "mx" ? " scale=floor" : "")));
        Operands codes = make_operands(problem, kPacked, 5);
        named(codes, "x").assign(both);
        EXPECT_TRUE((*ops::find_implementation(second, "cpu_panels"))
                        ->run(problem, {codes.views(), codes.scalars}, Stream::cpu())
                        .ok());
        return codes;
      };
      run(fused, operands, 2);
      Operands once = quantised("f32"), twice = quantised("bf16");
      for (const char* name : {"q", "scale", "q_t", "scale_t"}) {
        EXPECT_EQ(named(operands, name).values(), named(once, name).values()) << scaling << " " << name;
      }
      const auto passes = [&] { return *op().spot_check(fused, {operands.views(), operands.scalars}, 1); };
      EXPECT_LE(passes().residual, passes().allowed) << scaling;
      EXPECT_NE(named(operands, "q").values(), named(twice, "q").values()) << scaling;
      named(operands, "q").assign(named(twice, "q").values());
      EXPECT_GT(passes().residual, passes().allowed) << "rounded twice, " << scaling;
    }
  }
}

TEST(ActivationQuantizeBackward, AMaskedRowIsZeroWhateverItHolds) {
  for (const std::string& function : kFunctions) {
    for (const std::string& scaling : kScalings) {
      const ops::Problem problem =
          bound(fmt::format("rows=3 cols=70 probs=1 mask=1 copies=both function={} scaling={}", function, scaling));
      Operands operands = make_operands(problem, kAwkward, 9);
      for (const char* name : {"dy", "x", "up", "probs"}) {
        Operand& operand = named(operands, name);
        std::vector<double> values = operand.values();
        const std::size_t row = values.size() / 3;
        std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(row), row, std::nan(""));
        operand.assign(values);
      }
      named(operands, "mask").assign({1, 0, 7});
      run(problem, operands, 2);
      const std::vector<double> q = named(operands, "q").values(), q_t = named(operands, "q_t").values();
      ASSERT_EQ(q.size(), 3u * 140u);
      for (std::size_t e = 0; e < q.size(); ++e) {
        EXPECT_TRUE(std::isfinite(q[e]) && std::isfinite(q_t[e])) << function << " " << e;
        EXPECT_TRUE(e / 140 != 1 || q[e] == 0) << function << " " << e;
        EXPECT_TRUE(e % 3 != 1 || q_t[e] == 0) << function << " " << e;
      }
      if (scaling == "row" || scaling == "1x128") {
        EXPECT_EQ(named(operands, "scale").values()[1], 1) << "of zeros";
      }
    }
  }
}

// What one function gives in the place of another, a factor that is left out, another rule, the halves the other way
// round.
TEST(ActivationQuantizeBackward, TheCheckAfterEveryLaunchCatchesAnotherFunction) {
  std::vector<std::pair<std::string, std::string>> mutants;  // what is right, and what is run
  for (const std::string& right : kFunctions) {
    for (const std::string& wrong : kFunctions) {
      if (right != wrong) mutants.emplace_back("function=" + right, "function=" + wrong);
    }
  }
  mutants.emplace_back("probs=1", "probs=0");
  mutants.emplace_back("scale=floor", "scale=ceil");
  mutants.emplace_back("scaling=row", "scaling=row scale=even");
  for (const auto& [right_words, wrong_words] : mutants) {
    const ops::Problem right = bound("rows=40 cols=200 copies=both " + right_words),
                       wrong = bound("rows=40 cols=200 copies=both " + wrong_words);
    Operands operands = make_operands(right, kPacked, 21);
    std::vector<TensorView> views;
    for (const Operand& operand : operands.all) {
      if (wrong.position(operand.spec().name)) views.push_back(operand.view());
    }
    ASSERT_TRUE(panels().run(wrong, {views, operands.scalars}, Stream::cpu()).ok());
    const auto found = op().spot_check(right, {operands.views(), operands.scalars}, 5);
    ASSERT_TRUE(found.ok());
    EXPECT_GT(found->residual, found->allowed) << wrong_words << " for " << right_words;
    run(right, operands, 1);
    const auto again = op().spot_check(right, {operands.views(), operands.scalars}, 6);
    EXPECT_LE(again->residual, again->allowed) << right_words << ": " << again->detail;
  }
  const ops::Problem problem = bound("rows=40 cols=128 scaling=1x128");
  Operands operands = make_operands(problem, kPacked, 4);
  run(problem, operands, 1);
  std::vector<double> q = named(operands, "q").values(), scale = named(operands, "scale").values();
  for (std::size_t row = 0; row < 40; ++row) {
    const auto begin = q.begin() + static_cast<std::ptrdiff_t>(row * 256);
    std::rotate(begin, begin + 128, begin + 256);
  }
  std::rotate(scale.begin(), scale.begin() + 40, scale.end());
  named(operands, "q").assign(q), named(operands, "scale").assign(scale);
  const auto swapped = op().spot_check(problem, {operands.views(), operands.scalars}, 7);
  EXPECT_GT(swapped->residual, swapped->allowed);
}

// A call from its parts, in f32.
struct Parts {
  std::vector<float> xu = std::vector<float>(5 * 16, 0.5F), dy = std::vector<float>(5 * 8, 1.0F);
  std::vector<unsigned char> q = std::vector<unsigned char>(80), q_t = q;
  std::vector<float> scale = std::vector<float>(64, -1), scale_t = scale;

  TensorView half(std::int64_t first) {
    TensorView view = TensorView::contiguous(xu.data() + first, DType::kF32, {5, 8});
    view.stride[0] = 16;
    return view;
  }
  ActivationQuantizeBackwardArgs args() {
    ActivationQuantizeBackwardArgs args;
    args.dy = TensorView::contiguous(dy.data(), DType::kF32, {5, 8});
    args.forward.x = half(0);
    args.forward.up = half(8);
    args.q = TensorView::contiguous(q.data(), DType::kE4m3fn, {5, 16});
    args.q_t = TensorView::contiguous(q_t.data(), DType::kE4m3fn, {16, 5});
    args.scale = TensorView::contiguous(scale.data(), DType::kF32, {1, 5});
    args.scale_t = TensorView::contiguous(scale_t.data(), DType::kF32, {1, 16});
    return args;
  }
};
std::string error_of(const ActivationQuantizeBackwardArgs& args) {
  const Status status = activation_quantize_backward(args, Stream::cpu());
  return status ? "" : status.error().text();
}

TEST(ActivationQuantizeBackward, WritesWhatAPackedMatrixOfBothHas) {
  Parts parts;
  parts.dy[8 + 3] = -4;  // row 1, column 3
  ASSERT_EQ(error_of(parts.args()), "");
  const double s = 1 / (1 + std::exp(-0.5)), slope = s * (1 + 0.5 * (1 - s)), dx = 0.5 * slope, dup = 0.5 * s;
  ASSERT_GT(dx, dup);
  EXPECT_NEAR(parts.scale[0], dx / 448, 1e-9);
  EXPECT_NEAR(parts.scale[1], 4 * dx / 448, 1e-9);
  EXPECT_NEAR(parts.scale_t[3], 4 * dx / 448, 1e-9);
  EXPECT_NEAR(parts.scale_t[8 + 3], 4 * dup / 448, 1e-9);
  EXPECT_NEAR(parts.scale_t[8], dup / 448, 1e-9);
  EXPECT_EQ(numerics::decode(DType::kE4m3fn, parts.q[16 + 3]), -448);
  EXPECT_EQ(numerics::decode(DType::kE4m3fn, parts.q[0]), 448);
  EXPECT_EQ(numerics::decode(DType::kE4m3fn, parts.q_t[(8 + 3) * 5 + 1]), -448);
  EXPECT_NEAR(numerics::decode(DType::kE4m3fn, parts.q[8]) * parts.scale[0], dup, 0.04 * dup);
}

TEST(ActivationQuantizeBackward, SaysWhatIsWrongWithItsArguments) {
  Parts parts;
  ActivationQuantizeBackwardArgs args = parts.args();
  args.q = args.q_t = TensorView();
  EXPECT_THAT(error_of(args), HasSubstr("activation_quantize_backward: neither q nor q_t is given"));
  args = parts.args(), args.q.shape[1] = 8;
  EXPECT_THAT(error_of(args), HasSubstr("it must be e4m3fn [5, 16] (the gradient is f32 [5, 16]"));
  args = parts.args(), args.dy.shape[1] = 7;
  EXPECT_THAT(error_of(args), HasSubstr("dy is f32 [5, 7]"));
  args = parts.args(), args.dy.dtype = DType::kBf16;
  EXPECT_THAT(error_of(args), HasSubstr("dy is bf16"));
  args = parts.args(), args.forward.up = TensorView();
  EXPECT_THAT(error_of(args), HasSubstr("it must be e4m3fn [5, 8]"));
  args = parts.args(), args.forward.limit = -1;
  EXPECT_THAT(error_of(args), HasSubstr("a limit of -1 is not possible"));
  args = parts.args(), args.q.data = parts.dy.data();
  EXPECT_THAT(error_of(args), HasSubstr("q overlaps dy"));
  args = parts.args(), args.scale_t.data = parts.xu.data() + 8;
  EXPECT_THAT(error_of(args), HasSubstr("scale_t overlaps"));
  float amax = 1;
  args = parts.args(), args.amax = &amax;
  EXPECT_THAT(error_of(args), HasSubstr("the gradient's own largest magnitude"));
}

}  // namespace
}  // namespace ridge::testing
