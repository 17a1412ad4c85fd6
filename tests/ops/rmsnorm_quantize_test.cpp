// What is particular to rmsnorm_quantize: it is quantize of what rmsnorm computes, without the rounding in between; the
// sum and the factors that it leaves for the backward, what the check after every launch catches, and what the
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
#include "ridge/ops/rmsnorm_quantize.h"

namespace ridge::testing {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kScalings = {"tensor", "row", "1x128", "128x128", "mx"};

const ops::Operator& op() { return **ops::find_operator("rmsnorm_quantize"); }
ops::Problem bound(const std::string& text) {
  const record::Case one = *record::parse_case(text);
  auto problem = (*ops::find_operator(one.op))->bind(one);
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
// The implementation for processors, without a check.
void run(const ops::Problem& problem, const Operands& operands, int threads = 1) {
  const ops::Operator& any = **ops::find_operator(problem.problem_case.op);
  const ops::Implementation* const own =
      *ops::find_implementation(any, any.name == "rmsnorm" ? "cpu_rows" : "cpu_panels");
  ASSERT_TRUE(own->run(problem, {operands.views(), operands.scalars}, Stream::cpu(threads)).ok());
}

// Sum and factors are rmsnorm's, and the codes are what quantize makes of its fp32 result, not of one in 16 bits.
TEST(RmsnormQuantize, IsQuantizeOfWhatIsNotRoundedInBetween) {
  for (const std::string& scaling : kScalings) {
    // The sum is rounded to its dtype before it is normalised, so the norm alone is compared with one in f32.
    const ops::Problem fused = bound("rmsnorm_quantize rows=70 cols=300 dtype=bf16 weight=f32 scaling=" + scaling),
                       wide = bound("rmsnorm rows=70 cols=300 dtype=f32 weight=f32");
    Operands operands = make_operands(fused, kPacked, 17), y = make_operands(wide, kPacked, 17);
    for (const char* name : {"x", "weight"}) named(y, name).assign(named(operands, name).values());
    y.scalars = operands.scalars;
    run(wide, y);
    run(fused, operands, 2);
    EXPECT_EQ(named(operands, "rstd").values(), named(y, "rstd").values());
    const auto quantised = [&](const char* dtype) {
      const ops::Problem problem = bound(fmt::format("quantize rows=70 cols=300 dtype={} scaling={}", dtype, scaling));
      Operands codes = make_operands(problem, kPacked, 5);
      named(codes, "x").assign(named(y, "y").values());
      run(problem, codes);
      return codes;
    };
    Operands once = quantised("f32"), twice = quantised("bf16");
    EXPECT_EQ(named(operands, "q").values(), named(once, "q").values()) << scaling;
    EXPECT_EQ(named(operands, "scale").values(), named(once, "scale").values()) << scaling;
    const auto passes = [&] { return *op().spot_check(fused, {operands.views(), operands.scalars}, 1); };
    EXPECT_LE(passes().residual, passes().allowed) << scaling << ": " << passes().detail;
    named(operands, "q").assign(named(twice, "q").values());
    EXPECT_GT(passes().residual, passes().allowed) << "rounded twice, " << scaling;
  }
}

TEST(RmsnormQuantize, LeavesTheSumAndTheFactorsThatRmsnormDoes) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const ops::Problem fused = bound(fmt::format("rmsnorm_quantize rows=9 cols=1100 residual=1 dtype={}", dtype)),
                       norm = bound(fmt::format("rmsnorm rows=9 cols=1100 residual=1 dtype={}", dtype));
    Operands a = make_operands(fused, kAwkward, 3), b = make_operands(norm, kAwkward, 3);
    run(fused, a, 3);
    run(norm, b);
    EXPECT_EQ(named(a, "sum").values(), named(b, "sum").values()) << dtype;
    EXPECT_EQ(named(a, "rstd").values(), named(b, "rstd").values()) << dtype;
  }
}

// A weight or a residual that is left out, another eps, another rule.
TEST(RmsnormQuantize, TheCheckAfterEveryLaunchCatchesAnotherNorm) {
  struct Mutant {
    std::string right, wrong;
    double eps = 0;  // added
  };
  for (const Mutant& mutant : {Mutant{"weight=same", "weight=none"}, Mutant{"residual=1", "residual=0"},
                               Mutant{"weight=same zero_centred=1", "weight=same"}, Mutant{"", "", 0.25},
                               Mutant{"scale=floor", "scale=ceil"}}) {
    const ops::Problem right = bound("rmsnorm_quantize rows=40 cols=200 copies=both " + mutant.right),
                       wrong = bound("rmsnorm_quantize rows=40 cols=200 copies=both " + mutant.wrong);
    Operands operands = make_operands(right, kPacked, 21);
    std::vector<TensorView> views;
    for (const Operand& operand : operands.all) {
      if (wrong.position(operand.spec().name)) views.push_back(operand.view());
    }
    std::vector<record::Scalar> scalars = {
        record::Scalar::f32(static_cast<float>(operands.scalars[0].real() + mutant.eps))};
    const ops::Implementation& panels = **ops::find_implementation(op(), "cpu_panels");
    if (right.position("sum")) run(right, operands);  // or it would be the sum that is not written
    ASSERT_TRUE(panels.run(wrong, {views, scalars}, Stream::cpu()).ok());
    const auto found = op().spot_check(right, {operands.views(), operands.scalars}, 5);
    ASSERT_TRUE(found.ok());
    EXPECT_GT(found->residual, found->allowed) << mutant.wrong << " for " << mutant.right;
    run(right, operands);
    const auto again = op().spot_check(right, {operands.views(), operands.scalars}, 6);
    EXPECT_LE(again->residual, again->allowed) << mutant.right << ": " << again->detail;
  }
}

TEST(RmsnormQuantize, SaysWhatIsWrongWithItsArguments) {
  std::vector<float> x(40, 0.5F), residual(x), sum(x), weight(8, 1), rstd(5), scale(64), scale_t(64);
  std::vector<unsigned char> q(40), q_t(40);
  const auto view = [](std::vector<float>& memory, std::initializer_list<std::int64_t> shape) {
    return TensorView::contiguous(memory.data(), DType::kF32, shape);
  };
  const auto good = [&] {
    RmsnormQuantizeArgs args;
    args.forward.x = view(x, {5, 8}), args.forward.weight = view(weight, {8}), args.forward.rstd = view(rstd, {5});
    args.forward.residual = view(residual, {5, 8}), args.forward.sum = view(sum, {5, 8});
    args.q = TensorView::contiguous(q.data(), DType::kE4m3fn, {5, 8});
    args.q_t = TensorView::contiguous(q_t.data(), DType::kE4m3fn, {8, 5});
    args.scale = view(scale, {1, 5}), args.scale_t = view(scale_t, {1, 8});
    return args;
  };
  const auto error_of = [](const RmsnormQuantizeArgs& args) {
    const Status status = rmsnorm_quantize(args, Stream::cpu());
    return status ? std::string() : status.error().text();
  };
  RmsnormQuantizeArgs args = good();
  ASSERT_EQ(error_of(args), "");
  EXPECT_EQ(sum[3], 1) << "of two halves";
  EXPECT_NEAR(rstd[4], 1, 1e-6);
  EXPECT_NEAR(scale[2], 1.0 / 448, 1e-8);
  EXPECT_EQ(numerics::decode(DType::kE4m3fn, q_t[7]), 448);
  args = good(), args.forward.rstd = TensorView();
  EXPECT_THAT(error_of(args), HasSubstr("rmsnorm_quantize: rstd is left out"));
  args = good(), args.forward.sum = TensorView();
  EXPECT_THAT(error_of(args), HasSubstr("residual is given without sum"));
  args = good(), args.forward.weight = TensorView(), args.forward.zero_centred = true;
  EXPECT_THAT(error_of(args), HasSubstr("zero_centred is about the weight"));
  args = good(), args.forward.eps = -1;
  EXPECT_THAT(error_of(args), HasSubstr("an eps of -1 is not possible"));
  args = good(), args.q = args.q_t = TensorView();
  EXPECT_THAT(error_of(args), HasSubstr("neither q nor q_t is given"));
  args = good(), args.q.data = sum.data();
  EXPECT_THAT(error_of(args), HasSubstr("q overlaps sum"));
  args = good(), args.scale.data = rstd.data();
  EXPECT_THAT(error_of(args), HasSubstr("scale overlaps rstd"));
  args = good(), args.granularity = Granularity::kMx;
  EXPECT_THAT(error_of(args), HasSubstr("mx scales are powers of two"));
  const auto refused = op().bind(*record::parse_case("rmsnorm_quantize weight=none zero_centred=1"));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), HasSubstr("zero_centred is about the weight"));
}

}  // namespace
}  // namespace ridge::testing
