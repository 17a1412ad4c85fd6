// What is particular to rope_norm: heads of a packed qkv in place, what a wrong kernel would give, and its arguments.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ops/harness.h"
#include "record/case.h"
#include "ridge/ops/rope.h"
#include "ridge/ops/rope_norm.h"
#include "ridge/ops/rope_norm_backward.h"

namespace ridge::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kLength = 5, kHeads = 4, kKvHeads = 2, kDim = 32, kRotary = 24, kRows = 9;

std::vector<float> normal(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& value : values) value = draw(generator);
  return values;
}

// Memory for a call and its backward, of one sequence.
struct Heads {
  std::vector<float> q = normal(kLength * kHeads * kDim, 1), k = normal(kLength * kKvHeads * kDim, 2), q_out = q,
                     k_out = k, dq_out = normal(q.size(), 3), dk_out = normal(k.size(), 4), dq = q, dk = k;
  std::vector<float> q_weight = normal(kDim, 5), k_weight = normal(kDim, 6), dq_weight = q_weight, dk_weight = k_weight;
  std::vector<float> cos = std::vector<float>(kRows * kRotary / 2), sin = cos;

  Heads() { EXPECT_TRUE(rope_table({}, table(cos), table(sin)).ok()); }
  static TensorView table(std::vector<float>& of) {
    return TensorView::contiguous(of.data(), DType::kF32, {kRows, kRotary / 2});
  }
  static TensorView heads(std::vector<float>& of) {
    const std::int64_t count = std::ssize(of) / (kLength * kDim);
    return TensorView::contiguous(of.data(), DType::kF32, {1, kLength, count, kDim});
  }
  static TensorView vector(std::vector<float>& of) { return TensorView::contiguous(of.data(), DType::kF32, {kDim}); }

  RopeNormArgs forward() {
    RopeNormArgs args;
    args.q = heads(q), args.k = heads(k), args.q_out = heads(q_out), args.k_out = heads(k_out);
    args.q_weight = vector(q_weight), args.k_weight = vector(k_weight);
    args.cos = table(cos), args.sin = table(sin);
    args.offset = 3, args.eps = 0.25;
    return args;
  }
  RopeNormBackwardArgs backward() {
    RopeNormBackwardArgs args;
    args.q = heads(q), args.k = heads(k), args.dq_out = heads(dq_out), args.dk_out = heads(dk_out);
    args.dq = heads(dq), args.dk = heads(dk);
    args.q_weight = vector(q_weight), args.k_weight = vector(k_weight);
    args.dq_weight = vector(dq_weight), args.dk_weight = vector(dk_weight);
    args.cos = table(cos), args.sin = table(sin);
    args.offset = 3, args.eps = 0.25;
    return args;
  }
};

// As two operations in fp64.
std::vector<double> by_hand(const std::vector<float>& x, const std::vector<float>& weight, const Heads& of,
                            std::int64_t heads) {
  std::vector<double> out;
  for (std::int64_t row = 0; row < kLength * heads; ++row) {
    double squares = 0;
    for (std::int64_t j = 0; j < kDim; ++j) squares += std::pow(x[static_cast<std::size_t>(row * kDim + j)], 2);
    const double rstd = 1 / std::sqrt(squares / kDim + 0.25);
    const auto n = [&](std::int64_t j) {
      return x[static_cast<std::size_t>(row * kDim + j)] * rstd * weight[static_cast<std::size_t>(j)];
    };
    for (std::int64_t j = 0; j < kDim; ++j) {
      const std::int64_t pair = j % (kRotary / 2);
      const auto angle = static_cast<std::size_t>((3 + row / heads) * kRotary / 2 + pair);
      if (j >= kRotary) out.push_back(n(j));
      if (j < kRotary / 2) out.push_back(n(pair) * of.cos[angle] - n(pair + kRotary / 2) * of.sin[angle]);
      if (j >= kRotary / 2 && j < kRotary) {
        out.push_back(n(pair + kRotary / 2) * of.cos[angle] + n(pair) * of.sin[angle]);
      }
    }
  }
  return out;
}

// Scratch memory of a run, until the next.
std::span<std::byte> own_workspace(const ops::Implementation& own, const ops::Problem& problem) {
  static std::vector<std::byte> memory;
  memory.resize(own.workspace_bytes ? own.workspace_bytes(problem, Stream::cpu(2)) : 0);
  return memory;
}

TEST(RopeNorm, IsANormAndThenAnEmbedding) {
  Heads of;
  const Status status = rope_norm(of.forward(), Stream::cpu(2));
  ASSERT_TRUE(status.ok()) << status.error().text();
  const std::vector<double> q = by_hand(of.q, of.q_weight, of, kHeads), k = by_hand(of.k, of.k_weight, of, kKvHeads);
  for (std::size_t i = 0; i < q.size(); ++i) ASSERT_NEAR(of.q_out[i], q[i], 2e-6) << i;
  for (std::size_t i = 0; i < k.size(); ++i) ASSERT_NEAR(of.k_out[i], k[i], 2e-6) << i;
}

// Against differences of the forward, of a loss that is linear in its results.
TEST(RopeNorm, HasTheGradientsOfItsForward) {
  Heads of;
  ASSERT_TRUE(rope_norm_backward(of.backward(), Stream::cpu(2)).ok());
  const auto loss = [&] {
    const std::vector<double> q = by_hand(of.q, of.q_weight, of, kHeads), k = by_hand(of.k, of.k_weight, of, kKvHeads);
    double sum = 0;
    for (std::size_t i = 0; i < q.size(); ++i) sum += q[i] * of.dq_out[i];
    for (std::size_t i = 0; i < k.size(); ++i) sum += k[i] * of.dk_out[i];
    return sum;
  };
  const auto expect = [&](std::vector<float>& of_what, const std::vector<float>& gradient) {
    for (std::size_t i = 0; i<of_what.size(); i += of_what.size()> 64 ? 37 : 5) {
      const float kept = of_what[i], step = 1.0F / 256;
      of_what[i] = kept + step;
      const double above = loss();
      of_what[i] = kept - step;
      const double below = loss();
      of_what[i] = kept;
      EXPECT_NEAR(gradient[i], (above - below) / (2.0 * step), 2e-3 * (1 + std::abs(gradient[i]))) << i;
    }
  };
  expect(of.q, of.dq);
  expect(of.k, of.dk);
  expect(of.q_weight, of.dq_weight);
  expect(of.k_weight, of.dk_weight);
}

TEST(RopeNorm, TakesWhatArrivesAndWhatLeavesInOnePlace) {
  Heads apart, together;
  ASSERT_TRUE(rope_norm_backward(apart.backward(), Stream::cpu(2)).ok());
  RopeNormBackwardArgs args = together.backward();
  args.dq = args.dq_out, args.dk = args.k;
  ASSERT_TRUE(rope_norm_backward(args, Stream::cpu(2)).ok());
  EXPECT_EQ(together.dq_out, apart.dq);
  EXPECT_EQ(together.k, apart.dk);
  EXPECT_EQ(together.dq_weight, apart.dq_weight);
  RopeNormArgs forward = together.forward();
  forward.q_out = forward.q;
  ASSERT_TRUE(rope_norm(forward, Stream::cpu()).ok());
  ASSERT_TRUE(rope_norm(apart.forward(), Stream::cpu()).ok());
  EXPECT_EQ(together.q, apart.q_out);
}

// eps and offset that are a little off, a flag that is left out, the weights of q for k: the check after a launch sees
// each, in f32 and in bf16.
TEST(RopeNorm, TheCheckAfterEveryLaunchCatchesWhatIsLeftOut) {
  for (const char* name : {"rope_norm", "rope_norm_backward"}) {
    const ops::Operator& op = **ops::find_operator(name);
    const ops::Implementation& own = **ops::find_implementation(op, "cpu_tokens");
    for (const char* dtype : {"f32", "bf16"}) {
      const auto bound = [&](const std::string& more) {
        return *op.bind(*record::parse_case(
            fmt::format("{} length=40 heads=3 kv_heads=2 dim=32 rows=50 dtype={} {}", name, dtype, more)));
      };
      const ops::Problem right = bound("zero_centred=1");
      const auto residual = [&](const ops::Problem& run, std::int64_t offset, float eps, bool swapped) {
        Operands operands = make_operands(right, kPacked, 11);
        const Operands before = operands;
        std::vector<TensorView> views = operands.views();
        if (swapped) std::swap(views[*right.position("q_weight")], views[*right.position("k_weight")]);
        const std::vector<record::Scalar> scalars = {record::Scalar::i64(offset), record::Scalar::f32(eps)};
        EXPECT_TRUE(own.run(run, {views, scalars, own_workspace(own, run)}, Stream::cpu(2)).ok());
        const std::vector<TensorView> after = operands.views_with_old(before);
        const std::vector<record::Scalar> usual = {record::Scalar::i64(4), record::Scalar::f32(0.125F)};
        const auto found = op.spot_check(right, {after, usual}, 5);
        EXPECT_TRUE(found.ok());
        return found->residual / found->allowed;
      };
      const std::string where = fmt::format("{} in {}", name, dtype);
      EXPECT_LE(residual(right, 4, 0.125F, false), 1) << where;
      EXPECT_GT(residual(right, 5, 0.125F, false), 1) << where;
      EXPECT_GT(residual(right, 4, 0.13F, false), 1) << where;
      EXPECT_GT(residual(right, 4, 0.125F, true), 1) << where;
      EXPECT_GT(residual(bound(""), 4, 0.125F, false), 1) << where;
      EXPECT_GT(residual(bound("zero_centred=1 interleaved=1"), 4, 0.125F, false), 1) << where;
      EXPECT_GT(residual(bound("zero_centred=1 rotary=30"), 4, 0.125F, false), 1) << where;
    }
  }
}

TEST(RopeNorm, SaysWhatIsWrongWithACall) {
  Heads of;
  const auto refused = [&](const std::function<void(RopeNormArgs&)>& change) {
    RopeNormArgs args = of.forward();
    change(args);
    const Status status = rope_norm(args, Stream::cpu());
    return status.ok() ? std::string("no error") : status.error().text();
  };
  EXPECT_THAT(refused([](RopeNormArgs& args) { args.k_weight = {}; }), HasSubstr("q_weight is given without k_weight"));
  EXPECT_THAT(refused([](RopeNormArgs& args) { args.k = args.k_out = {}; }), HasSubstr("k_weight is given without k"));
  EXPECT_THAT(refused([](RopeNormArgs& args) { args.q_weight.shape[0] = 31; }), HasSubstr("q_weight"));
  EXPECT_THAT(refused([](RopeNormArgs& args) { args.eps = -1; }), HasSubstr("an eps of -1 is not possible"));
  EXPECT_THAT(refused([](RopeNormArgs& args) {
                args.q_weight = args.k_weight = {};
                args.zero_centred = true;
              }),
              HasSubstr("zero_centred is about the weights"));
  EXPECT_THAT(refused([](RopeNormArgs& args) { args.offset = 5; }), HasSubstr("positions 5 to 9 of a table of 9 rows"));
  EXPECT_THAT(refused([](RopeNormArgs& args) { args.k_weight.data = args.q_out.data; }),
              HasSubstr("overlaps k_weight"));
  const auto backward = [&](const std::function<void(RopeNormBackwardArgs&)>& change) {
    RopeNormBackwardArgs args = of.backward();
    change(args);
    const Status status = rope_norm_backward(args, Stream::cpu());
    return status.ok() ? std::string("no error") : status.error().text();
  };
  EXPECT_THAT(backward([](RopeNormBackwardArgs& args) { args.dk_weight = {}; }),
              HasSubstr("k_weight is given without dk_weight"));
  EXPECT_THAT(backward([](RopeNormBackwardArgs& args) { args.dq_weight = args.dk_weight; }),
              HasSubstr("overlaps dk_weight"));
  EXPECT_THAT(backward([](RopeNormBackwardArgs& args) { args.dq_out.shape[1] = 4; }), HasSubstr("dq_out"));
}

}  // namespace
}  // namespace ridge::testing
