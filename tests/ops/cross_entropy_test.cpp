// What is particular to cross_entropy: masked vocabulary, ignored rows that hold garbage, targets that are no column,
// gradients in place, shards that merge, and what the check after every launch catches.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dispatch/launch.h"
#include "numerics/convert.h"
#include "ops/harness.h"
#include "record/case.h"
#include "ridge/ops/cross_entropy.h"
#include "ridge/ops/cross_entropy_backward.h"

namespace ridge::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

const ops::Operator& operator_named(const std::string& name) { return **ops::find_operator(name); }
ops::Problem bound(const std::string& text) {
  const record::Case one = *record::parse_case(text);
  auto problem = operator_named(one.op).bind(one);
  EXPECT_TRUE(problem.ok()) << text << ": " << (problem.ok() ? "" : problem.error().text());
  return *problem;
}

TensorView vector_of(std::vector<float>& values) {
  return TensorView::contiguous(values.data(), DType::kF32, {std::ssize(values)});
}

// A call in f32 with memory of its own.
struct Batch {
  std::int64_t tokens, columns;
  std::vector<float> logits, loss, lse, dlogits;
  std::vector<std::int64_t> targets;
  CrossEntropySettings settings;

  Batch(std::int64_t rows, std::int64_t cols, unsigned seed) : tokens(rows), columns(cols) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0, 3);
    for (std::int64_t i = 0; i < rows * cols; ++i) logits.push_back(normal(generator));
    for (std::int64_t i = 0; i < rows; ++i) {
      targets.push_back(static_cast<std::int64_t>(generator() % static_cast<unsigned>(cols)));
    }
    loss.assign(static_cast<std::size_t>(rows), -1);
    lse = loss;
    dlogits.assign(logits.size(), -1);
  }
  [[nodiscard]] TensorView matrix(std::vector<float>& values) const {
    return TensorView::contiguous(values.data(), DType::kF32, {tokens, columns});
  }
  CrossEntropyArgs args() {
    CrossEntropyArgs call;
    call.logits = matrix(logits);
    call.targets = TensorView::contiguous(targets.data(), DType::kI64, {tokens});
    call.loss = vector_of(loss);
    call.lse = vector_of(lse);
    call.dlogits = matrix(dlogits);
    call.settings = settings;
    return call;
  }
  float& logit(std::int64_t row, std::int64_t column) {
    return logits[static_cast<std::size_t>(row * columns + column)];
  }
  float gradient(std::int64_t row, std::int64_t column) {
    return dlogits[static_cast<std::size_t>(row * columns + column)];
  }
};

TEST(CrossEntropy, AMaskedVocabularyHasNoProbabilityAndNoGradient) {
  Batch batch(3, 5000, 1);
  for (std::int64_t j = 1000; j < 4500; ++j) batch.logit(1, j) = -kInf;  // whole pieces of the row among them
  batch.targets[1] = 7;
  Batch rest(1, 1500, 2);
  for (std::int64_t j = 0; j < 1500; ++j) rest.logit(0, j) = batch.logit(1, j < 1000 ? j : j + 3500);
  rest.targets[0] = 7;
  ASSERT_TRUE(cross_entropy(batch.args(), Stream::cpu(2)).ok());
  ASSERT_TRUE(cross_entropy(rest.args(), Stream::cpu()).ok());
  EXPECT_NEAR(batch.loss[1], rest.loss[0], 1e-5);
  for (std::int64_t j = 1000; j < 4500; ++j) ASSERT_EQ(batch.gradient(1, j), 0) << j;
  EXPECT_NEAR(batch.gradient(1, 4600), rest.gradient(0, 1100), 1e-7);
  batch.targets[1] = 2000;  // a target that has no probability
  ASSERT_TRUE(cross_entropy(batch.args(), Stream::cpu()).ok());
  EXPECT_EQ(batch.loss[1], kInf);
  EXPECT_EQ(batch.gradient(1, 2000), -1);
  EXPECT_TRUE(std::isfinite(batch.loss[0]) && std::isfinite(batch.loss[2]));
}

TEST(CrossEntropy, ARowThatIsNoDistributionIsNanAndTheOthersKeepTheirValues) {
  for (const float special : {kInf, std::nanf(""), -kInf}) {
    Batch batch(3, 3000, 3), plain(3, 3000, 3);
    if (special == -kInf) {
      for (std::int64_t j = 0; j < 3000; ++j) batch.logit(1, j) = special;
    } else {
      batch.logit(1, 2100) = special;
    }
    ASSERT_TRUE(cross_entropy(batch.args(), Stream::cpu()).ok());
    ASSERT_TRUE(cross_entropy(plain.args(), Stream::cpu()).ok());
    EXPECT_TRUE(std::isnan(batch.loss[1]) && std::isnan(batch.lse[1])) << special;
    for (std::int64_t j = 0; j < 3000; ++j) {
      ASSERT_TRUE(std::isnan(batch.gradient(1, j))) << special << ", " << j;
      ASSERT_EQ(batch.gradient(0, j), plain.gradient(0, j));
      ASSERT_EQ(batch.gradient(2, j), plain.gradient(2, j));
    }
    EXPECT_EQ(batch.loss[0], plain.loss[0]);
  }
}

TEST(CrossEntropy, AnIgnoredRowIsZeroWhateverItHolds) {
  Batch batch(4, 70, 5);
  batch.targets[2] = batch.settings.ignore_index;
  for (std::int64_t j = 0; j < 70; ++j) batch.logit(2, j) = std::nanf("");
  ASSERT_TRUE(cross_entropy(batch.args(), Stream::cpu(2)).ok());
  EXPECT_EQ(batch.loss[2], 0);
  EXPECT_EQ(batch.lse[2], 0);
  for (std::int64_t j = 0; j < 70; ++j) EXPECT_EQ(batch.gradient(2, j), 0);
  CrossEntropyBackwardArgs back;
  std::vector<float> ones(4, 1);
  back.dloss = vector_of(ones);
  back.logits = batch.matrix(batch.logits);
  back.targets = batch.args().targets;
  back.lse = vector_of(batch.lse);
  back.dlogits = batch.matrix(batch.dlogits);
  batch.dlogits.assign(batch.dlogits.size(), 9);
  ASSERT_TRUE(cross_entropy_backward(back, Stream::cpu()).ok());
  for (std::int64_t j = 0; j < 70; ++j) EXPECT_EQ(batch.gradient(2, j), 0);
}

TEST(CrossEntropy, ATargetThatIsNoColumnIsAnErrorThatNamesRowAndValue) {
  Batch batch(4, 70, 6);
  for (const std::int64_t wrong : {std::int64_t{70}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    batch.targets[3] = wrong;
    batch.loss.assign(4, -5);
    const Status status = cross_entropy(batch.args(), Stream::cpu());
    ASSERT_FALSE(status.ok());
    const std::string text = status.error().text();
    EXPECT_NE(text.find("targets[3] is " + std::to_string(wrong)), std::string::npos) << text;
    EXPECT_NE(text.find("from 0 to 69"), std::string::npos) << text;
    EXPECT_EQ(batch.loss[0], -5) << "written before the targets were looked at";
  }
}

TEST(CrossEntropy, WritesTheGradientOverTheLogits) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* cap : {"0", "1"}) {
      const ops::Problem problem =
          bound(std::string("cross_entropy tokens=5 vocabulary=4100 dlogits=1 dtype=") + dtype + " soft_cap=" + cap);
      const ops::Operator& op = operator_named("cross_entropy");
      const ops::Implementation& rows = **ops::find_implementation(op, "cpu_rows");
      Operands apart = make_operands(problem, kPacked, 8), over = make_operands(problem, kPacked, 8);
      ASSERT_TRUE(rows.run(problem, {apart.views(), apart.scalars}, Stream::cpu(2)).ok());
      std::vector<TensorView> views = over.views();
      views.back() = views.front();
      ASSERT_TRUE(rows.run(problem, {views, over.scalars}, Stream::cpu(2)).ok());
      EXPECT_EQ(numerics::to_doubles(views.front()), apart.all.back().values()) << dtype << cap;
    }
  }
}

// Two shards of different widths, one of them masked in a row as a whole, against the whole vocabulary.
TEST(CrossEntropy, TwoShardsEqualTheWhole) {
  const std::int64_t tokens = 6, columns = 5000, cut = 1800;
  Batch whole(tokens, columns, 9);
  whole.settings.label_smoothing = 0.1;
  whole.settings.z_loss = 1e-3;
  whole.targets[4] = whole.settings.ignore_index;
  for (std::int64_t j = 0; j < cut; ++j) whole.logit(5, j) = -60;
  CrossEntropyArgs one_call = whole.args();
  ASSERT_TRUE(cross_entropy(one_call, Stream::cpu()).ok());

  struct Shard {
    std::int64_t first, count;
    std::vector<float> most, sum, target, logits;
  };
  std::vector<Shard> shards = {{0, cut, {}, {}, {}, {}}, {cut, columns - cut, {}, {}, {}, {}}};
  for (Shard& shard : shards) {
    for (auto* values : {&shard.most, &shard.sum, &shard.target, &shard.logits}) values->assign(tokens, -1);
    CrossEntropyArgs call;
    call.logits = TensorView::matrix(&whole.logit(0, shard.first), DType::kF32, tokens, shard.count, columns);
    call.targets = one_call.targets;
    call.settings = whole.settings;
    call.settings.first = shard.first;
    call.settings.whole = columns;
    call.shard_max = vector_of(shard.most);
    call.shard_sum = vector_of(shard.sum);
    call.shard_target = vector_of(shard.target);
    call.shard_logits = vector_of(shard.logits);
    const Status status = cross_entropy(call, Stream::cpu(2));
    ASSERT_TRUE(status.ok()) << status.error().text();
  }
  std::vector<float> lse(tokens), ones(tokens, 1);
  for (std::size_t i = 0; i < tokens; ++i) {
    const double most = std::fmax(shards[0].most[i], shards[1].most[i]);
    double sum = 0, target = 0, logits = 0;
    for (const Shard& shard : shards) {
      sum += shard.sum[i] * std::exp(shard.most[i] - most);
      target += shard.target[i], logits += shard.logits[i];
    }
    lse[i] = static_cast<float>(most + std::log(sum));
    if (whole.targets[i] == whole.settings.ignore_index) lse[i] = 0;
    const double s = whole.settings.label_smoothing;
    const double loss =
        lse[i] - (1 - s) * target - s * logits / static_cast<double>(columns) + whole.settings.z_loss * lse[i] * lse[i];
    EXPECT_NEAR(lse[i], whole.lse[i], 2e-6 * std::fabs(whole.lse[i]));
    EXPECT_NEAR(loss, whole.loss[i], 1e-5);
  }
  std::vector<float> merged(whole.logits.size(), -1);
  for (const Shard& shard : shards) {
    CrossEntropyBackwardArgs back;
    back.dloss = vector_of(ones);
    back.logits = TensorView::matrix(&whole.logit(0, shard.first), DType::kF32, tokens, shard.count, columns);
    back.targets = one_call.targets;
    back.lse = vector_of(lse);
    back.dlogits = TensorView::matrix(merged.data() + shard.first, DType::kF32, tokens, shard.count, columns);
    back.settings = whole.settings;
    back.settings.first = shard.first;
    back.settings.whole = columns;
    const Status status = cross_entropy_backward(back, Stream::cpu());
    ASSERT_TRUE(status.ok()) << status.error().text();
  }
  for (std::size_t e = 0; e < merged.size(); ++e) {
    ASSERT_NEAR(merged[e], whole.dlogits[e], 1e-8 + 1e-5 * std::fabs(whole.dlogits[e])) << e;
  }
}

// A wrong setting, a target that is off by one, a factor that is left out.
TEST(CrossEntropy, TheCheckAfterEveryLaunchCatchesAnotherSetting) {
  const ops::Operator& op = operator_named("cross_entropy");
  const ops::Problem problem = bound("cross_entropy tokens=40 vocabulary=300 dlogits=1 grad=1 soft_cap=1 dtype=f16");
  const std::vector<record::Scalar> right = {
      record::Scalar::f32(0.1F), record::Scalar::f32(1e-2F), record::Scalar::f32(5.0F), record::Scalar::f32(2.0F),
      record::Scalar::i64(3),    record::Scalar::i64(0),     record::Scalar::i64(300)};
  const auto residual_after = [&](const std::vector<record::Scalar>& used, int moved) {
    Operands operands = make_operands(problem, kPacked, 21);
    Operand& targets = operands.all[1];
    std::vector<double> kept = targets.values();
    kept[5] = 3;  // ignored
    std::vector<double> values = kept;
    if (moved != 0) values[17] = values[17] < 150 ? values[17] + moved : values[17] - moved;
    targets.assign(values);
    EXPECT_TRUE(op.implementations.back().run(problem, {operands.views(), used}, Stream::cpu()).ok());
    targets.assign(kept);
    const auto found = op.spot_check(problem, {operands.views(), right}, 5);
    EXPECT_TRUE(found.ok());
    return found->residual / found->allowed;
  };
  EXPECT_LE(residual_after(right, 0), 1);
  EXPECT_GT(residual_after(right, 1), 1);
  for (std::size_t scalar = 0; scalar < 5; ++scalar) {
    std::vector<record::Scalar> wrong = right;
    wrong[scalar] =
        scalar == 4 ? record::Scalar::i64(-100) : record::Scalar::f32(static_cast<float>(right[scalar].real()) * 1.5F);
    EXPECT_GT(residual_after(wrong, 0), 1) << "scalar " << scalar;
  }
}

// What a kernel makes of a call with a soft cap that softens logits by `soften` first, in fp32: the call without a cap
// on such logits, its gradient times the slope.
template <class Soften>
Operands softened_run(const std::string& text, double cap, const Soften& soften) {
  const ops::Problem capped = bound(text + " soft_cap=1"), plain = bound(text + " soft_cap=0");
  Operands before = make_operands(capped, kPacked, 31), after = make_operands(capped, kPacked, 31);
  const std::size_t logits = *capped.position("logits"), dlogits = *capped.position("dlogits");
  const std::vector<double> given = before.all[logits].values();
  std::vector<double> soft;
  for (const double x : given) soft.push_back(static_cast<double>(soften(static_cast<float>(x))));
  after.all[logits].assign(soft);
  const ops::Operator& op = operator_named(capped.problem_case.op);
  EXPECT_TRUE(op.implementations.back()
                  .run(plain, {after.views(), make_operands(plain, kPacked, 31).scalars}, Stream::cpu())
                  .ok());
  std::vector<double> gradient = after.all[dlogits].values();
  for (std::size_t e = 0; e < gradient.size(); ++e) gradient[e] /= std::pow(std::cosh(given[e] / cap), 2);
  after.all[dlogits].assign(gradient);
  after.all[logits].assign(given);
  return after;
}

// A large cap leaves logits of unit size as they are, and their digits, too: a kernel that has them from the difference
// of a sigmoid and its rest is a step of the cap off.
TEST(CrossEntropy, TheChecksCatchAKernelThatLosesTheDigitsOfLogitsFarBelowTheCap) {
  for (const std::string text : {"cross_entropy tokens=6 vocabulary=300 dlogits=1 dtype=f32",
                                 "cross_entropy_backward tokens=6 vocabulary=300 dtype=f32"}) {
    const ops::Problem problem = bound(text + " soft_cap=1");
    const ops::Operator& op = operator_named(problem.problem_case.op);
    for (const float cap : {3.0F, 100.0F, 1e4F, 1e12F, 1e38F}) {
      Operands before = make_operands(problem, kPacked, 31);
      before.scalars[2] = record::Scalar::f32(cap);
      const auto wrong = [&](const Operands& after) { return judge(op, problem, before, after, 3); };
      const auto run = [&](const auto& soften) { return softened_run(text, static_cast<double>(cap), soften); };

      Operands shipped = make_operands(problem, kPacked, 31);
      ASSERT_TRUE(op.implementations.back().run(problem, {shipped.views(), before.scalars}, Stream::cpu()).ok());
      EXPECT_EQ(wrong(shipped), "") << text << ", cap " << cap;
      EXPECT_EQ(wrong(run([&](float x) { return cap * std::tanh(x / cap); })), "") << text << ", cap " << cap;
      if (cap < 1e4F || cap > 1e30F) continue;
      const Operands mutant = run([&](float x) {
        const float high = 1 / (1 + std::exp(-2 * x / cap));
        return cap * (2 * high - 1);
      });
      EXPECT_NE(wrong(mutant), "") << text << ", cap " << cap;
      const auto quick = op.spot_check(problem, {mutant.views(), before.scalars}, 5);
      ASSERT_TRUE(quick.ok());
      EXPECT_GT(quick->residual, quick->allowed) << text << ", cap " << cap;
    }
  }
}

TEST(CrossEntropy, SaysWhatIsWrongWithACall) {
  const auto refused = [](const CrossEntropyArgs& args) {
    const Status status = cross_entropy(args, Stream::cpu());
    return status.ok() ? std::string("no error") : status.error().text();
  };
  Batch batch(4, 8, 1);
  CrossEntropyArgs args = batch.args();
  args.settings.label_smoothing = 1.5;
  EXPECT_EQ(refused(args), "cross_entropy: label_smoothing is 1.5 (give a number from 0 to 1)");
  args = batch.args();
  args.settings.z_loss = std::nan("");
  EXPECT_EQ(refused(args), "cross_entropy: z_loss is nan (give a finite number from 0)");
  args = batch.args();
  args.settings.whole = 4;
  EXPECT_NE(refused(args).find("8 columns from 0 on is not within a vocabulary of 4"), std::string::npos);
  args = batch.args();
  args.settings.whole = 16;
  EXPECT_NE(refused(args).find("a shard has no loss"), std::string::npos);
  args = batch.args();
  args.dlogits.data = batch.logits.data() + 1;
  EXPECT_NE(refused(args).find("dlogits overlaps logits"), std::string::npos) << refused(args);
  args = batch.args();
  args.dlogits = {};
  args.grad = args.loss;
  EXPECT_NE(refused(args).find("grad is given and dlogits is not wanted"), std::string::npos);
}

}  // namespace
}  // namespace ridge::testing
