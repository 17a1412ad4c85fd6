// What is particular to attention: rows without keys, strides in any order, the mask's corner, weights of unseen keys,
// and what the arguments' check says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "numerics/convert.h"
#include "ops/harness.h"
#include "ridge/ops/attention.h"

namespace ridge::testing {
namespace {

// A tensor [batch, length, heads, dim] that lies as [batch, heads, length, dim] when `heads_first`.
struct Tensor {
  std::vector<std::uint16_t> bits;
  TensorView view;

  Tensor(std::int64_t batch, std::int64_t length, std::int64_t heads, std::int64_t dim, bool heads_first,
         unsigned seed) {
    bits.assign(static_cast<std::size_t>(batch * length * heads * dim), 0x7fff);
    view = TensorView::contiguous(bits.data(), DType::kBf16, {batch, length, heads, dim});
    if (heads_first) view.stride = {length * heads * dim, dim, length * dim, 1};
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal;
    for (std::int64_t e = 0; e < view.element_count(); ++e) numerics::store_element(view, e, normal(generator));
  }
  [[nodiscard]] std::vector<double> values() const { return numerics::to_doubles(view); }
};

struct Problem {
  Tensor q, k, v, o;
  std::vector<float> sums;
  AttentionArgs args;

  Problem(std::int64_t q_len, std::int64_t k_len, bool heads_first, bool causal)
      : q(2, q_len, 4, 64, heads_first, 1),
        k(2, k_len, 2, 64, heads_first, 2),
        v(2, k_len, 2, 64, heads_first, 3),
        o(2, q_len, 4, 64, heads_first, 4),
        sums(static_cast<std::size_t>(8 * q_len)) {
    args = {q.view, k.view, v.view, o.view, TensorView::contiguous(sums.data(), DType::kF32, {2, 4, q_len}), causal};
  }
};

TEST(Attention, ReadsAndWritesStridesInAnyOrder) {
  for (const bool causal : {false, true}) {
    Problem packed(37, 90, false, causal), turned(37, 90, true, causal);
    ASSERT_TRUE(attention(packed.args, Stream::cpu(2)).ok());
    ASSERT_TRUE(attention(turned.args, Stream::cpu(2)).ok());
    EXPECT_EQ(packed.o.values(), turned.o.values());
    EXPECT_EQ(packed.sums, turned.sums);
  }
}

TEST(Attention, ARowWithoutKeysIsZeroAndItsLogSumIsMinusInfinity) {
  Problem problem(10, 4, false, true);  // the first six queries see nothing
  ASSERT_TRUE(attention(problem.args, Stream::cpu()).ok());
  const std::vector<double> o = problem.o.values();
  for (std::size_t e = 0; e < 6 * 4 * 64; ++e) ASSERT_EQ(o[e], 0.0) << e;
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(std::isinf(problem.sums[i]), i < 6) << i;
}

TEST(Attention, TheLastQuerySeesEveryKeyAndTheOneBeforeItOneLess) {
  Problem all(3, 70, false, true), fewer(3, 70, false, true);
  // The last key: only the last query may notice.
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t c = 0; c < 64; ++c) numerics::store_element(fewer.v.view, (69 * 2 + h) * 64 + c, 1000.0);
  }
  ASSERT_TRUE(attention(all.args, Stream::cpu()).ok());
  ASSERT_TRUE(attention(fewer.args, Stream::cpu()).ok());
  const std::vector<double> x = all.o.values(), y = fewer.o.values();
  for (std::size_t e = 0; e < 2 * 4 * 64; ++e) ASSERT_EQ(x[e], y[e]) << e;
  for (std::size_t e = 2 * 4 * 64; e < 3 * 4 * 64; ++e) ASSERT_NE(x[e], y[e]) << e;
}

TEST(Attention, UnseenKeysDoNotCountWhateverTheyHold) {
  Problem problem(64, 64, false, true);
  for (std::int64_t c = 0; c < 64; ++c) {
    numerics::store_element(problem.k.view, 63 * 2 * 64 + c, std::numeric_limits<double>::quiet_NaN());
    numerics::store_element(problem.v.view, 63 * 2 * 64 + c, std::numeric_limits<double>::infinity());
  }
  ASSERT_TRUE(attention(problem.args, Stream::cpu()).ok());
  const std::vector<double> o = problem.o.values();
  for (std::size_t e = 0; e < 63 * 4 * 64; ++e) ASSERT_TRUE(std::isfinite(o[e])) << e;
  EXPECT_TRUE(std::isnan(o[63 * 4 * 64]));
  EXPECT_TRUE(std::isfinite(o[(63 * 4 + 2) * 64]));  // the head that reads the other keys
}

TEST(Attention, LargeScoresDoNotOverflow) {
  Problem problem(20, 130, false, false);
  for (std::int64_t e = 0; e < problem.q.view.element_count(); ++e) {
    numerics::store_element(problem.q.view, e, 60 * problem.q.values()[static_cast<std::size_t>(e)]);
  }
  ASSERT_TRUE(attention(problem.args, Stream::cpu()).ok());
  for (const double x : problem.o.values()) ASSERT_TRUE(std::isfinite(x));
  for (const float x : problem.sums) ASSERT_TRUE(std::isfinite(x));
}

// A query that sees two keys, whose scores are `gap` apart; what it has of the second one, 1024 times its weight.
std::string judged_of_two_keys(const char* dtype, double gap, std::optional<double> found) {
  const ops::Operator& op = **ops::find_operator("attention");
  const std::string text = fmt::format("attention batch=1 heads=1 kv_heads=1 q_len=1 k_len=2 dim=64 dtype={}", dtype);
  const ops::Problem problem = *op.bind(*record::parse_case(text));
  std::vector<double> keys(128), values(128);
  std::fill(values.begin() + 64, values.end(), 1024.0);
  const auto operands = [&] {
    Operands made = make_operands(problem, kPacked, 1);
    made.all[0].assign(std::vector<double>(64, 1.0));
    std::fill(keys.begin(), keys.begin() + 64, gap / (64 * made.scalars[0].real()));
    made.all[1].assign(keys);
    made.all[2].assign(values);
    return made;
  };
  const Operands before = operands();
  for (const ops::Implementation& implementation : op.implementations) {
    if (implementation.backend != Backend::kCpu) continue;
    Operands after = operands();
    const Status status = implementation.run(problem, {after.views(), after.scalars}, Stream::cpu());
    if (!status) return status.error().text();
    if (found) after.all[3].assign(std::vector<double>(64, *found));
    const std::string wrong = judge(op, problem, before, after, 2);
    if (!wrong.empty()) return std::string(implementation.name) + ": " + wrong;
  }
  return {};
}

TEST(Attention, WeightsThatAreTooSmallForARelativeErrorAreJudgedByTheStepThatTheyHave) {
  EXPECT_EQ(judged_of_two_keys("bf16", 90, {}), "");     // e^-90 is no normal number of fp32
  EXPECT_EQ(judged_of_two_keys("bf16", 90, 0.0), "");    // a kernel may have none of it
  EXPECT_NE(judged_of_two_keys("bf16", 86, 0.0), "");    // but e^-86
  EXPECT_NE(judged_of_two_keys("bf16", 90, 3e-35), "");  // nor three of the least normal numbers
  EXPECT_EQ(judged_of_two_keys("f16", 14, {}), "");      // e^-14 is 13.95 steps of f16
  EXPECT_EQ(judged_of_two_keys("f16", 14, 14 * 0x1p-14), "");
  EXPECT_NE(judged_of_two_keys("f16", 14, 15 * 0x1p-14), "");
}

TEST(Attention, TheUsualScaleIsOneOverTheRootOfTheDimension) {
  Problem usual(20, 33, false, true), given(20, 33, false, true);
  given.args.scale = 0.125;  // dim 64
  ASSERT_TRUE(attention(usual.args, Stream::cpu()).ok());
  ASSERT_TRUE(attention(given.args, Stream::cpu()).ok());
  EXPECT_EQ(usual.o.values(), given.o.values());
  EXPECT_EQ(usual.sums, given.sums);
}

// Twice the queries, or twice the scale.
TEST(Attention, TheScaleMultipliesTheScoresOfThatCallAlone) {
  Problem scaled(20, 33, false, false), larger(20, 33, false, false), usual(20, 33, false, false);
  scaled.args.scale = 0.25;
  const std::vector<double> q = larger.q.values();
  for (std::size_t e = 0; e < q.size(); ++e) {
    numerics::store_element(larger.q.view, static_cast<std::int64_t>(e), 2 * q[e]);
  }
  ASSERT_TRUE(attention(scaled.args, Stream::cpu()).ok());
  ASSERT_TRUE(attention(larger.args, Stream::cpu()).ok());
  ASSERT_TRUE(attention(usual.args, Stream::cpu()).ok());  // the next call of the case, without one
  EXPECT_EQ(scaled.sums, larger.sums);
  EXPECT_EQ(scaled.o.values(), larger.o.values());
  EXPECT_NE(scaled.sums, usual.sums);
}

TEST(Attention, AScaleThatIsNotAboveZeroIsRefused) {
  for (const double scale :
       {0.0, -0.125, 1e-60, 1e60, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Problem problem(3, 3, false, false);
    problem.args.scale = scale;
    const Status status = attention(problem.args, Stream::cpu());
    ASSERT_FALSE(status.ok()) << scale;
    EXPECT_NE(status.error().text().find("give a finite number above 0, or none for 1 / sqrt(dim)"), std::string::npos);
  }
}

TEST(Attention, SaysWhatIsWrongWithItsArguments) {
  Problem problem(8, 8, false, false);
  const auto error = [](const AttentionArgs& args) {
    const Status status = attention(args, Stream::cpu());
    return status.ok() ? std::string() : status.error().text();
  };
  AttentionArgs args = problem.args;
  args.k = args.v = TensorView::contiguous(problem.k.bits.data(), DType::kBf16, {2, 5, 3, 64});
  EXPECT_NE(error(args).find("4 query heads cannot share 3 heads"), std::string::npos) << error(args);
  args = problem.args;
  args.v.shape[1] = 7;
  EXPECT_NE(error(args).find("give v the shape and dtype of k"), std::string::npos) << error(args);
  args = problem.args;
  args.q.stride[2] = 32;
  EXPECT_NE(error(args).find("rows of 64 elements must be contiguous"), std::string::npos) << error(args);
  args = problem.args;
  args.o = args.q;
  EXPECT_NE(error(args).find("overlaps"), std::string::npos) << error(args);
  args = problem.args;
  args.q.dtype = DType::kF32;
  EXPECT_NE(error(args).find("give bf16 or f16"), std::string::npos) << error(args);
}

}  // namespace
}  // namespace ridge::testing
