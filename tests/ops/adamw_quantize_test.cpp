// What is particular to adamw_quantize: it is adamw, and quantize of the weight that this stores, bit for bit; what a
// skip leaves, what the check after every launch catches, and what the arguments' check says.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "dispatch/launch.h"
#include "numerics/convert.h"
#include "numerics/fill.h"
#include "ops/harness.h"
#include "record/case.h"
#include "ridge/ops/adamw_quantize.h"

namespace ridge::testing {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kScalings = {"tensor", "tensor amax=given", "row", "1x128", "128x128", "mx"};

const ops::Operator& op() { return **ops::find_operator("adamw_quantize"); }
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
      *ops::find_implementation(any, any.name == "adamw" ? "cpu_pieces" : "cpu_panels");
  ASSERT_TRUE(own->run(problem, {operands.views(), operands.scalars}, Stream::cpu(threads)).ok());
}
// Codes of a weight as it is stored, by quantize.
Operands codes_of(Operand& weight, const std::string& coded, Operands* given = nullptr) {
  const std::string dtype(to_string(weight.spec().dtype));
  const ops::Problem problem = bound(fmt::format("quantize rows={} cols={} dtype={} {}", weight.spec().shape[0],
                                                 weight.spec().shape[1], dtype, coded));
  Operands operands = make_operands(problem, kPacked, 5);
  named(operands, "x").assign(weight.values());
  if (given != nullptr) named(operands, "amax").assign(named(*given, "amax").values());
  run(problem, operands);
  return operands;
}

TEST(AdamwQuantize, IsAdamwAndQuantizeOfTheWeightThatItStores) {
  for (const std::string form : {"dtype=f32", "dtype=bf16", "dtype=bf16 master=1 factor=1", "dtype=f16 state=bf16",
                                 "dtype=f32 state=bf16 maximize=1", "dtype=bf16 wide_grad=1 master=1"}) {
    for (const std::string& scaling : kScalings) {
      const std::string coded = fmt::format("copies=both scaling={}", scaling);
      const ops::Problem fused = bound(fmt::format("adamw_quantize rows=70 cols=1300 {} {}", form, coded)),
                         step = bound(fmt::format("adamw count={} {}", 70 * 1300, form));
      Operands operands = make_operands(fused, kAwkward, 17), apart = make_operands(step, kPacked, 3);
      for (Operand& each : apart.all) each.assign(named(operands, each.spec().name).values());
      apart.scalars = operands.scalars;
      run(step, apart);
      run(fused, operands, 3);
      for (const Operand& each : apart.all) {
        EXPECT_EQ(named(operands, each.spec().name).values(), each.values()) << form << scaling << each.spec().name;
      }
      const bool given = fused.position("amax").has_value();
      Operands codes =
          codes_of(named(operands, fused.position("master") ? "master" : "param"), coded, given ? &operands : nullptr);
      for (const char* name : {"q", "scale", "q_t", "scale_t"}) {
        EXPECT_EQ(named(operands, name).values(), named(codes, name).values()) << form << scaling << name;
      }
      if (!given) continue;
      EXPECT_EQ(named(operands, "found").values(), named(codes, "found").values()) << form;
    }
  }
}

TEST(AdamwQuantize, ASkipLeavesTheWeightAndStillWritesItsCodes) {
  for (const std::string& scaling : kScalings) {
    const ops::Problem problem =
        bound(fmt::format("adamw_quantize rows=40 cols=200 master=1 skip=1 factor=1 copies=both scaling={}", scaling));
    Operands operands = make_operands(problem, kPacked, 4), before = make_operands(problem, kPacked, 4);
    named(operands, "grad").poison();
    named(operands, "skip").assign({1});
    run(problem, operands, 2);
    for (const char* name : {"param", "exp_avg", "exp_avg_sq", "master"}) {
      EXPECT_EQ(named(operands, name).values(), named(before, name).values()) << scaling << name;
    }
    Operands codes = codes_of(named(before, "master"), fmt::format("copies=both scaling={}", scaling),
                              problem.position("amax") ? &operands : nullptr);
    EXPECT_EQ(named(operands, "q").values(), named(codes, "q").values()) << scaling;
    EXPECT_EQ(named(operands, "scale_t").values(), named(codes, "scale_t").values()) << scaling;
    named(operands, "skip").assign({0});
    run(problem, operands, 2);
    EXPECT_TRUE(std::isnan(named(operands, "master").values()[7])) << scaling;
    EXPECT_TRUE(std::isnan(named(operands, "q").values()[7])) << scaling;
  }
}

// What a launch with other scalars left.
double residual(const ops::Problem& problem, Operands& after, const Operands& before,
                const std::vector<record::Scalar>& scalars) {
  const std::vector<TensorView> views = after.views_with_old(before);
  const auto found = op().spot_check(problem, {views, scalars}, 5);
  EXPECT_TRUE(found.ok());
  return found->residual / found->allowed;
}

TEST(AdamwQuantize, TheCheckAfterEveryLaunchCatchesEveryScalar) {
  const ops::Problem problem = bound("adamw_quantize rows=60 cols=50 dtype=f32 copies=both");
  const std::vector<double> usual = {0.01, 0.9, 0.99, 0.1, 0.1, 0.3, 0.2};
  const auto scalars_with = [&](std::size_t changed) {
    std::vector<record::Scalar> scalars;
    for (std::size_t i = 0; i < usual.size(); ++i) {
      scalars.push_back(record::Scalar::f64(i == changed ? usual[i] * 1.001 : usual[i]));
    }
    return scalars;
  };
  for (std::size_t changed = 0; changed <= usual.size(); ++changed) {
    Operands operands = make_operands(problem, kPacked, 30 + changed);
    const Operands before = make_operands(problem, kPacked, 30 + changed);
    operands.scalars = scalars_with(changed);
    run(problem, operands);
    const double found = residual(problem, operands, before, scalars_with(usual.size()));
    if (changed == usual.size()) {
      EXPECT_LE(found, 1);
    } else {
      EXPECT_GT(found, 1) << problem.scalars[changed].name;
    }
  }
}

// The step is right and the codes are of something else: of the weight before, of param where there is a master, of a
// weight that was not rounded, with the scales of another rule.
TEST(AdamwQuantize, TheCheckAfterEveryLaunchCatchesCodesOfAnotherWeight) {
  const std::string coded = "copies=both scaling=1x128";
  const ops::Problem mastered = bound("adamw_quantize rows=40 cols=200 master=1 " + coded),
                     narrow = bound("adamw_quantize rows=40 cols=200 " + coded);
  for (const ops::Problem& problem : {mastered, narrow}) {
    Operands operands = make_operands(problem, kPacked, 8), before = make_operands(problem, kPacked, 8);
    for (std::size_t i = 0; i < operands.scalars.size(); ++i) {
      operands.scalars[i] = record::Scalar::f64(std::vector<double>{0.3, 0.9, 0.99, 0.1, 0.1, 0.3, 0.2}[i]);
    }
    run(problem, operands);
    const auto check = [&] { return residual(problem, operands, before, operands.scalars); };
    EXPECT_LE(check(), 1);
    const auto with_codes_of = [&](Operand& weight, const std::string& rule) {
      Operands codes = codes_of(weight, coded + rule), right = operands;
      for (const char* name : {"q", "scale", "q_t", "scale_t"})
        named(operands, name).assign(named(codes, name).values());
      const double found = check();
      operands = right;
      return found;
    };
    const bool master = problem.position("master").has_value();
    Operand& weight = named(operands, master ? "master" : "param");
    EXPECT_LE(with_codes_of(weight, ""), 1);
    EXPECT_GT(with_codes_of(weight, " scale=floor"), 1);
    EXPECT_GT(with_codes_of(named(before, master ? "master" : "param"), ""), 1);
    if (master) {
      EXPECT_GT(with_codes_of(named(operands, "param"), ""), 1);
    } else {
      const ops::Problem wide = bound("adamw count=8000 dtype=f32");
      Operands unrounded = make_operands(wide, kPacked, 1);
      for (Operand& each : unrounded.all) each.assign(named(before, each.spec().name).values());
      unrounded.scalars = operands.scalars;
      run(wide, unrounded);
      Operand matrix({"param", DType::kF32, {40, 200}, true, true}, kPacked);
      matrix.assign(named(unrounded, "param").values());
      EXPECT_GT(with_codes_of(matrix, ""), 1);
    }
  }
}

// Where the averages are denormal, a weight may be far more than a step of its type off, and of either sign: codes of
// any that it may be are right.
TEST(AdamwQuantize, CodesOfAWeightThatMayHaveEitherSignAreRight) {
  for (const std::string dtype : {"f32", "bf16", "f16"}) {
    const ops::Problem problem = bound("adamw_quantize rows=1 cols=131 copies=both scaling=row dtype=" + dtype);
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      Operands operands = make_operands(problem, kPacked, seed), before = make_operands(problem, kPacked, seed);
      for (Operands* each : {&operands, &before}) {
        for (std::size_t i = 0; i < each->all.size(); ++i) {
          const ops::OperandSpec& spec = problem.operands[i];
          if (spec.output && !spec.read_write) continue;
          ops::fill_input(spec.fill, each->all[i].view(), numerics::Family::kDenormals, 9 * seed + i);
        }
        each->scalars = ops::draw_scalars(problem, seed);
      }
      run(problem, operands);
      const auto right = op().reference(problem, {before.views(), before.scalars});
      ASSERT_TRUE(right.ok());
      std::size_t output = 0;
      for (const Operand& each : operands.all) {
        if (!each.spec().output) continue;
        ASSERT_EQ(compare(each.values(), (*right)[output++], each.spec().dtype), "")
            << dtype << seed << each.spec().name;
      }
    }
  }
}

TEST(AdamwQuantize, SaysWhatIsWrongWithItsArguments) {
  std::vector<float> param(40, 2.0F), grad(40, 1.0F), mean(40), square(40), master(40, 2.0F), scale(4), scale_t(4);
  std::vector<unsigned char> q(40), q_t(40);
  const auto view = [](std::vector<float>& memory, std::initializer_list<std::int64_t> shape) {
    return TensorView::contiguous(memory.data(), DType::kF32, shape);
  };
  const auto good = [&] {
    AdamwQuantizeArgs args;
    args.update.param = view(param, {5, 8}), args.update.grad = view(grad, {5, 8});
    args.update.exp_avg = view(mean, {5, 8}), args.update.exp_avg_sq = view(square, {5, 8});
    args.update.weight_decay = 0, args.update.lr = 0.25;
    args.q = TensorView::contiguous(q.data(), DType::kE4m3fn, {5, 8});
    args.q_t = TensorView::contiguous(q_t.data(), DType::kE4m3fn, {8, 5});
    args.scale = view(scale, {1, 1}), args.scale_t = view(scale_t, {1, 1});
    return args;
  };
  const auto error_of = [](const AdamwQuantizeArgs& args) {
    const Status status = adamw_quantize(args, Stream::cpu());
    return status ? std::string() : status.error().text();
  };
  AdamwQuantizeArgs args = good();
  ASSERT_EQ(error_of(args), "");
  EXPECT_NEAR(param[3], 1.75, 1e-6) << "a first step is as long as lr";
  EXPECT_NEAR(scale[0], 1.75 / 448, 1e-8);
  EXPECT_EQ(numerics::decode(DType::kE4m3fn, q_t[7]), 448);
  args = good(), args.update.param = view(param, {40});
  EXPECT_THAT(error_of(args), HasSubstr("adamw_quantize: param has rank 1; it must have rank 2"));
  args = good(), args.update.grad = view(grad, {8, 5});
  EXPECT_THAT(error_of(args), HasSubstr("adamw_quantize: grad is f32 [8, 5]; it must be f32 [5, 8]"));
  args = good(), args.update.master = view(param, {5, 8});
  EXPECT_THAT(error_of(args), HasSubstr("param overlaps master"));
  args = good(), args.update.beta2 = 1;
  EXPECT_THAT(error_of(args), HasSubstr("adamw_quantize: beta2 is 1, which is not possible"));
  args = good(), args.q = args.q_t = TensorView();
  EXPECT_THAT(error_of(args), HasSubstr("neither q nor q_t is given"));
  args = good(), args.q.data = mean.data();
  EXPECT_THAT(error_of(args), HasSubstr("q overlaps exp_avg"));
  args = good(), args.scale_t.data = grad.data();
  EXPECT_THAT(error_of(args), HasSubstr("scale_t overlaps grad"));
  args = good(), args.q_t = TensorView::contiguous(q_t.data(), DType::kE4m3fn, {5, 8});
  EXPECT_THAT(error_of(args), HasSubstr("param is f32 [5, 8]"));
  args = good(), args.granularity = Granularity::kMx;
  EXPECT_THAT(error_of(args), HasSubstr("mx scales are powers of two"));
  const auto refused = op().bind(*record::parse_case("adamw_quantize amax=given"));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), HasSubstr("amax=given is one largest magnitude"));
}

}  // namespace
}  // namespace ridge::testing
