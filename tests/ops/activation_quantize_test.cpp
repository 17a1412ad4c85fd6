// What is particular to activation_quantize: it is quantize of what activation computes, without the rounding in
// between; every number there is, masked rows that hold garbage, halves of one matrix, a given largest magnitude, what
// the check after every launch catches, and what the arguments' check says.
#include <fmt/format.h>
#include <gmock/gmock.h>
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
#include "ridge/ops/activation_quantize.h"
#include "ridge/ops/quantize.h"

namespace ridge::testing {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kFunctions = {"silu", "gelu", "gelu_tanh", "relu", "relu2", "clamped_silu"};
const std::vector<std::string> kScalings = {"tensor", "row", "1x128", "128x128", "mx"};

const ops::Operator& op() { return **ops::find_operator("activation_quantize"); }
ops::Problem bound(const std::string& words) {
  auto problem = op().bind(*record::parse_case("activation_quantize " + words));
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

// The numbers of bf16, infinities and NaN among them, each next to those of its size or among all others.
std::vector<double> every_bf16(bool spread) {
  std::vector<double> all;
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const std::uint32_t bits = spread ? i * 40503u % 0x10000 : i;
    all.push_back(static_cast<double>(__builtin_bit_cast(float, bits << 16)));
  }
  return all;
}

TEST(ActivationQuantize, IsRightAtEveryNumberOfBf16) {
  for (const std::string& function : kFunctions) {
    for (const std::string& scaling : kScalings) {
      for (const char* more : {"dtype=bf16", "dtype=f32 format=e5m2", "dtype=f16 scale=even"}) {
        for (const bool spread : {false, true}) {
          const std::string words =
              fmt::format("rows=16 cols=4096 gated=0 copies=both function={} scaling={} {}", function, scaling, more);
          const ops::Problem problem = bound(words);
          Operands operands = make_operands(problem, kPacked, 3);
          named(operands, "x").assign(every_bf16(spread));
          const auto expected = op().reference(problem, {operands.views(), operands.scalars});
          ASSERT_TRUE(expected.ok());
          ASSERT_TRUE(panels().run(problem, {operands.views(), operands.scalars}, Stream::cpu()).ok());
          std::size_t output = 0;
          for (const Operand& operand : operands.all) {
            if (!operand.spec().output) continue;
            EXPECT_EQ(compare(operand.values(), (*expected)[output++], operand.spec().dtype), "")
                << words << (spread ? " spread, " : ", ") << operand.spec().name;
          }
        }
      }
    }
  }
}

// What quantize makes of the fp32 result that activation stores, and not of the one it rounds to 16 bits.
TEST(ActivationQuantize, IsQuantizeOfWhatIsNotRoundedInBetween) {
  const ops::Operator &first = **ops::find_operator("activation"), &second = **ops::find_operator("quantize");
  for (const std::string& scaling : kScalings) {
    const ops::Problem fused = bound("rows=70 cols=300 probs=1 dtype=bf16 scaling=" + scaling);
    Operands operands = make_operands(fused, kPacked, 17);
    // y by the same functions: the inputs are exact in fp32.
    const ops::Problem wide = *first.bind(*record::parse_case("activation rows=70 cols=300 probs=1 dtype=f32"));
    Operands y = make_operands(wide, kPacked, 17);
    for (const char* name : {"x", "up", "probs"}) named(y, name).assign(named(operands, name).values());
    ASSERT_TRUE(first.implementations[0].run(wide, {y.views(), operands.scalars}, Stream::cpu()).ok());
    const auto quantised = [&](const char* dtype) {
      const ops::Problem problem = *second.bind(*record::parse_case(fmt::format(
          "quantize rows=70 cols=300 dtype={} scaling={}{}", dtype, scaling, scaling == "mx" ? " scale=floor" : "")));
      Operands codes = make_operands(problem, kPacked, 5);
      named(codes, "x").assign(named(y, "y").values());
      EXPECT_TRUE((*ops::find_implementation(second, "cpu_panels"))
                      ->run(problem, {codes.views(), codes.scalars}, Stream::cpu())
                      .ok());
      return codes;
    };
    ASSERT_TRUE(panels().run(fused, {operands.views(), operands.scalars}, Stream::cpu(2)).ok());
    Operands once = quantised("f32"), twice = quantised("bf16");
    EXPECT_EQ(named(operands, "q").values(), named(once, "q").values()) << scaling;
    EXPECT_EQ(named(operands, "scale").values(), named(once, "scale").values()) << scaling;
    const auto passes = [&] { return *op().spot_check(fused, {operands.views(), operands.scalars}, 1); };
    EXPECT_LE(passes().residual, passes().allowed) << scaling;
    EXPECT_NE(named(operands, "q").values(), named(twice, "q").values()) << scaling;
    named(operands, "q").assign(named(twice, "q").values());
    EXPECT_GT(passes().residual, passes().allowed) << "rounded twice, " << scaling;
  }
}

// The transposed copy is that of y^T, with scales of its own.
TEST(ActivationQuantize, TransposedCopyIsWhatTheTransposeGives) {
  for (const std::string& scaling : kScalings) {
    const ops::Problem problem = bound("rows=131 cols=70 gated=0 dtype=f32 copies=column scaling=" + scaling);
    const ops::Problem turned = bound("rows=70 cols=131 gated=0 dtype=f32 copies=row scaling=" + scaling);
    Operands a = make_operands(problem, kPacked, 3), b = make_operands(turned, kPacked, 4);
    const std::vector<double> x = named(a, "x").values();
    std::vector<double> flipped(x.size());
    for (std::size_t r = 0; r < 131; ++r) {
      for (std::size_t c = 0; c < 70; ++c) flipped[c * 131 + r] = x[r * 70 + c];
    }
    named(b, "x").assign(flipped);
    ASSERT_TRUE(panels().run(problem, {a.views(), a.scalars}, Stream::cpu(2)).ok());
    ASSERT_TRUE(panels().run(turned, {b.views(), b.scalars}, Stream::cpu()).ok());
    const auto expected = op().reference(turned, {b.views(), b.scalars});
    EXPECT_EQ(compare(named(a, "q_t").values(), (*expected)[0], DType::kE4m3fn), "") << scaling;
    EXPECT_EQ(compare(named(a, "scale_t").values(), (*expected)[1], DType::kF32), "") << scaling;
  }
}

TEST(ActivationQuantize, AMaskedRowIsZeroWhateverItHolds) {
  for (const std::string& function : kFunctions) {
    for (const std::string& scaling : kScalings) {
      const ops::Problem problem =
          bound(fmt::format("rows=3 cols=70 probs=1 mask=1 copies=both function={} scaling={}", function, scaling));
      Operands operands = make_operands(problem, kAwkward, 9);
      for (const char* name : {"x", "up", "probs"}) {
        Operand& operand = named(operands, name);
        std::vector<double> values = operand.values();
        const std::size_t row = values.size() / 3;
        std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(row), row, std::nan(""));
        operand.assign(values);
      }
      named(operands, "mask").assign({1, 0, 7});
      ASSERT_TRUE(panels().run(problem, {operands.views(), operands.scalars}, Stream::cpu(2)).ok());
      const std::vector<double> q = named(operands, "q").values(), q_t = named(operands, "q_t").values();
      for (std::size_t e = 0; e < q.size(); ++e) {
        EXPECT_TRUE(std::isfinite(q[e]) && std::isfinite(q_t[e])) << function << " " << e;
        EXPECT_TRUE(e / 70 != 1 || q[e] == 0) << function << " " << e;
        EXPECT_TRUE(e % 3 != 1 || q_t[e] == 0) << function << " " << e;
      }
      if (scaling == "row" || scaling == "1x128") {
        EXPECT_EQ(named(operands, "scale").values()[1], 1) << "of zeros";
      }
    }
  }
}

// What one function gives in the place of another, a gate or a factor that is left out, another rule.
TEST(ActivationQuantize, TheCheckAfterEveryLaunchCatchesAnotherFunction) {
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
  mutants.push_back({"scale=floor", "scale=ceil"});
  mutants.push_back({"scaling=row", "scaling=row scale=even"});
  for (const Mutant& mutant : mutants) {
    const ops::Problem right = bound("rows=40 cols=200 copies=both " + mutant.right),
                       wrong = bound("rows=40 cols=200 copies=both " + mutant.wrong);
    Operands operands = make_operands(right, kPacked, 21);
    std::vector<TensorView> views;
    for (const Operand& operand : operands.all) {
      if (wrong.position(operand.spec().name)) views.push_back(operand.view());
    }
    ASSERT_TRUE(panels().run(wrong, {views, operands.scalars}, Stream::cpu()).ok());
    const auto found = op().spot_check(right, {operands.views(), operands.scalars}, 5);
    ASSERT_TRUE(found.ok());
    EXPECT_GT(found->residual, found->allowed) << mutant.wrong << " for " << mutant.right;
    ASSERT_TRUE(panels().run(right, {operands.views(), operands.scalars}, Stream::cpu()).ok());
    const auto again = op().spot_check(right, {operands.views(), operands.scalars}, 6);
    EXPECT_LE(again->residual, again->allowed) << mutant.right << ": " << again->detail;
  }
}

// A call from its parts, in f32.
struct Parts {
  std::vector<float> x = std::vector<float>(5 * 16, 0.5F);
  std::vector<unsigned char> q = std::vector<unsigned char>(40), q_t = q;
  std::vector<float> scale = std::vector<float>(64, -1), scale_t = scale;

  TensorView half(std::int64_t first) {
    TensorView view = TensorView::contiguous(x.data() + first, DType::kF32, {5, 8});
    view.stride[0] = 16;
    return view;
  }
  ActivationQuantizeArgs args() {
    ActivationQuantizeArgs args;
    args.forward.x = half(0);
    args.forward.up = half(8);
    args.q = TensorView::contiguous(q.data(), DType::kE4m3fn, {5, 8});
    args.q_t = TensorView::contiguous(q_t.data(), DType::kE4m3fn, {8, 5});
    args.scale = TensorView::contiguous(scale.data(), DType::kF32, {1, 5});
    args.scale_t = TensorView::contiguous(scale_t.data(), DType::kF32, {1, 8});
    return args;
  }
};
std::string error_of(const ActivationQuantizeArgs& args) {
  const Status status = activation_quantize(args, Stream::cpu());
  return status ? "" : status.error().text();
}

TEST(ActivationQuantize, TakesTheHalvesOfOneMatrix) {
  Parts parts;
  parts.x[16 + 3] = -3, parts.x[16 + 8 + 3] = 2;  // row 1, column 3: the largest of both
  ASSERT_EQ(error_of(parts.args()), "");
  const double y = 0.25 / (1 + std::exp(-0.5)), large = -6 / (1 + std::exp(3));
  EXPECT_NEAR(parts.scale[0], y / 448, 1e-9);
  EXPECT_NEAR(parts.scale[1], -large / 448, 1e-9);
  EXPECT_NEAR(parts.scale_t[3], -large / 448, 1e-9);
  EXPECT_EQ(numerics::decode(DType::kE4m3fn, parts.q[8 + 3]), -448);
  EXPECT_EQ(numerics::decode(DType::kE4m3fn, parts.q_t[3 * 5 + 1]), -448);
  EXPECT_EQ(numerics::decode(DType::kE4m3fn, parts.q[0]), 448);
}

TEST(ActivationQuantize, MakesTheScaleOfAGivenMagnitudeAndSaysItsOwn) {
  Parts parts;
  const float y = 0.25F / (1 + std::exp(-0.5F));
  for (const float given : {3.0F, 0.0F}) {
    float amax = given, found = -1;
    ActivationQuantizeArgs args = parts.args();
    args.granularity = Granularity::kTensor;
    args.scale = TensorView::contiguous(parts.scale.data(), DType::kF32, {1});
    args.scale_t = TensorView::contiguous(parts.scale_t.data(), DType::kF32, {1});
    args.amax = &amax, args.found = &found;
    ASSERT_EQ(error_of(args), "");
    EXPECT_NEAR(found, y, 1e-7);
    EXPECT_NEAR(parts.scale[0], (given != 0 ? given : y) / 448, 1e-9);
    EXPECT_EQ(parts.scale_t[0], parts.scale[0]);
    parts.x[8] = std::numeric_limits<float>::infinity();
    ASSERT_EQ(error_of(args), "");
    EXPECT_EQ(found, std::numeric_limits<float>::infinity());
    parts.x[8] = 0.5F;
    amax = -1;
    EXPECT_THAT(error_of(args), HasSubstr("amax is -1"));
  }
}

TEST(ActivationQuantize, SaysWhatIsWrongWithItsArguments) {
  Parts parts;
  ActivationQuantizeArgs args = parts.args();
  args.q = args.q_t = TensorView();
  EXPECT_THAT(error_of(args), HasSubstr("activation_quantize: neither q nor q_t is given"));
  args = parts.args(), args.q_t.shape[1] = 4;
  EXPECT_THAT(error_of(args), HasSubstr("it must be e4m3fn [8, 5] (x is f32 [5, 8]"));
  args = parts.args(), args.q_t.dtype = DType::kE5m2;
  EXPECT_THAT(error_of(args), HasSubstr("it must be e4m3fn [8, 5]"));
  args = parts.args(), args.q.dtype = DType::kBf16;
  EXPECT_THAT(error_of(args), HasSubstr("this format is not supported"));
  args = parts.args(), args.granularity = Granularity::kRow;
  EXPECT_THAT(error_of(args), HasSubstr("scale is f32 [1, 5]; it must be f32 [5]"));
  args = parts.args(), args.granularity = Granularity::kMx;
  EXPECT_THAT(error_of(args), HasSubstr("mx scales are powers of two"));
  args = parts.args(), args.forward.up.shape[1] = 7;
  EXPECT_THAT(error_of(args), HasSubstr("up is f32 [5, 7]"));
  args = parts.args(), args.forward.limit = -1;
  EXPECT_THAT(error_of(args), HasSubstr("a limit of -1 is not possible"));
  args = parts.args(), args.q.data = parts.x.data();
  EXPECT_THAT(error_of(args), HasSubstr("q overlaps x"));
  args = parts.args(), args.scale_t.data = parts.x.data() + 8;
  EXPECT_THAT(error_of(args), HasSubstr("scale_t overlaps"));
  args = parts.args(), args.q_t.data = args.q.data;
  EXPECT_THAT(error_of(args), HasSubstr("q overlaps q_t"));
  float amax = 1, found = 0;
  args = parts.args(), args.amax = &amax;
  EXPECT_THAT(error_of(args), HasSubstr("amax is given and found is null"));
  args.found = &found;
  EXPECT_THAT(error_of(args), HasSubstr("amax is one largest magnitude, and 1x128 scales are many"));
  const auto refused = op().bind(*record::parse_case("activation_quantize scaling=mx scale=f32"));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), HasSubstr("scale is one of floor, even, ceil"));
}

}  // namespace
}  // namespace ridge::testing
