// What is particular to attention: rows without keys, strides in any order, the mask's corner, weights of unseen keys,
// and what the arguments' check says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "numerics/convert.h"
#include "ops/attention/attention.h"
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

// Queries whose results differ when key `j` of sequence 0 has other values.
std::vector<std::int64_t> queries_that_notice(const AttentionArgs& like, std::int64_t j) {
  const std::int64_t q_len = like.q.shape[1], k_len = like.k.shape[1];
  Problem all(q_len, k_len, false, false), other(q_len, k_len, false, false);
  for (Problem* one : {&all, &other}) {
    one->args.causal = like.causal;
    one->args.window_left = like.window_left;
    one->args.window_right = like.window_right;
  }
  for (std::int64_t e = j * 2 * 64; e < (j + 1) * 2 * 64; ++e) numerics::store_element(other.v.view, e, 1000.0);
  EXPECT_TRUE(attention(all.args, Stream::cpu()).ok());
  EXPECT_TRUE(attention(other.args, Stream::cpu()).ok());
  std::vector<std::int64_t> found;
  const std::vector<double> x = all.o.values(), y = other.o.values();
  for (std::int64_t i = 0; i < q_len; ++i) {
    const auto at = static_cast<std::size_t>(i * 4 * 64);
    if (x[at] != y[at]) found.push_back(i);
  }
  return found;
}

TEST(Attention, AWindowIsCountedFromTheQuerysPlaceAtTheEndOfTheKeys) {
  using Queries = std::vector<std::int64_t>;
  const Problem like(12, 70, false, false);  // query i is at key i + 58
  AttentionArgs args = like.args;
  args.window_left = 3, args.window_right = 2;
  EXPECT_EQ(queries_that_notice(args, 62), (Queries{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(queries_that_notice(args, 54), Queries{});
  EXPECT_EQ(queries_that_notice(args, 55), Queries{0});
  args.causal = true;  // narrows the right end
  EXPECT_EQ(queries_that_notice(args, 62), (Queries{4, 5, 6, 7}));
  args.causal = false, args.window_left = -1;
  EXPECT_EQ(queries_that_notice(args, 69), (Queries{9, 10, 11}));
  args.window_left = 0, args.window_right = -1;
  EXPECT_EQ(queries_that_notice(args, 60), (Queries{0, 1, 2}));
}

TEST(Attention, OneMaskIsOneCase) {
  const auto case_of = [](bool causal, std::int64_t left, std::int64_t right) {
    const Problem like(20, 33, false, false);
    AttentionArgs args = like.args;
    args.causal = causal, args.window_left = left, args.window_right = right;
    const auto call = ops::attention::make_call(args);
    const std::vector<std::int64_t> values(call->values.begin(), call->values.end());
    return std::vector(values.begin() + ops::attention::kMask, values.begin() + ops::attention::kDocuments);
  };
  using Mask = std::vector<std::int64_t>;
  EXPECT_EQ(case_of(false, -1, -1), (Mask{0, 0, 0}));
  EXPECT_EQ(case_of(false, 32, 19), (Mask{0, 0, 0})) << "all keys of all queries";
  EXPECT_EQ(case_of(false, 31, 18), (Mask{0, 32, 19}));
  EXPECT_EQ(case_of(false, -1, 0), (Mask{1, 0, 0}));
  EXPECT_EQ(case_of(true, -1, -1), (Mask{1, 0, 0}));
  EXPECT_EQ(case_of(true, 5, 7), (Mask{1, 6, 0}));
  EXPECT_EQ(case_of(false, 5, 0), (Mask{1, 6, 0}));
  EXPECT_EQ(case_of(true, 1000, 1000), (Mask{1, 0, 0}));
}

// A column of o is made of that column of v.
TEST(Attention, ValuesMayHaveAnotherSizeThanKeys) {
  for (const std::int64_t v_dim : {1, 24, 130}) {
    const Problem like(37, 90, false, true);
    Tensor v(2, 90, 2, v_dim, true, 3), o(2, 37, 4, v_dim, true, 4);
    std::vector<float> sums(like.sums.size());
    AttentionArgs args = like.args;
    args.v = v.view, args.o = o.view;
    args.log_sum_exp.data = sums.data();
    ASSERT_TRUE(attention(args, Stream::cpu(2)).ok());
    for (std::int64_t first = 0; first < v_dim; first += 64) {
      const std::int64_t columns = std::min<std::int64_t>(64, v_dim - first);
      Problem of_dim(37, 90, false, true);
      for (std::int64_t row = 0; row < 2 * 90 * 2; ++row) {
        for (std::int64_t c = 0; c < columns; ++c) {
          numerics::store_element(of_dim.v.view, row * 64 + c,
                                  v.values()[static_cast<std::size_t>(row * v_dim + first + c)]);
        }
      }
      ASSERT_TRUE(attention(of_dim.args, Stream::cpu()).ok());
      EXPECT_EQ(of_dim.sums, sums);
      const std::vector<double> found = o.values(), right = of_dim.o.values();
      for (std::size_t row = 0; row < 2 * 37 * 4; ++row) {
        for (std::size_t c = 0; c < static_cast<std::size_t>(columns); ++c) {
          ASSERT_EQ(found[row * static_cast<std::size_t>(v_dim) + static_cast<std::size_t>(first) + c],
                    right[row * 64 + c]);
        }
      }
    }
  }
}

TEST(Attention, ValuesOfTheSizeOfKeysAreOneCaseAndPlansKnowTheSize) {
  for (const char* name : {"attention", "attention_backward"}) {
    const ops::Operator& op = **ops::find_operator(name);
    const auto bound = [&](const char* words) {
      return *op.bind(*record::parse_case(fmt::format("{} dim=128 {}", name, words)));
    };
    EXPECT_EQ(bound("").values, bound("v_dim=128").values);
    EXPECT_EQ(bound("").problem_case, bound("v_dim=128").problem_case);
    for (const auto& [words, size] : {std::pair{"", 128}, {"v_dim=128", 128}, {"v_dim=64", 64}}) {
      std::map<std::string, std::int64_t> facts;
      op.plan_values(bound(words), {}, facts);
      EXPECT_EQ(facts["v_dim"], size) << words;
    }
    EXPECT_GT(op.cost(bound("v_dim=256")).flop, op.cost(bound("")).flop);
  }
  const Problem like(3, 5, false, false);
  EXPECT_EQ(ops::attention::make_call(like.args)->values[ops::attention::kVDim], 0);
}

TEST(Attention, CostsAProductOfKeysAndOneOfValuesAndTheirGradients) {
  const auto flop = [](const char* name) {
    const ops::Operator& op = **ops::find_operator(name);
    const char* words = "batch=3 heads=4 kv_heads=2 q_len=5 k_len=7 dim=192 v_dim=128";
    return op.cost(*op.bind(*record::parse_case(fmt::format("{} {}", name, words)))).flop;
  };
  EXPECT_EQ(flop("attention"), 2.0 * (192 + 128) * 3 * 4 * 5 * 7);
  EXPECT_EQ(flop("attention_backward"), 2.0 * (3 * 192 + 2 * 128) * 3 * 4 * 5 * 7);
}

// By the results without sinks: exp(sink) is one more term of the sum, and there is nothing more to add up.
TEST(Attention, SinksTakePartInTheSumAlone) {
  for (const bool causal : {false, true}) {
    Problem none(37, 30, false, causal),
        with(37, 30, false, causal);  // with causal the first seven queries see nothing
    std::vector<float> sinks = {0.5f, -3.0f, 12.0f, -std::numeric_limits<float>::infinity()};
    with.args.sinks = TensorView::contiguous(sinks.data(), DType::kF32, {4});
    ASSERT_TRUE(attention(none.args, Stream::cpu()).ok());
    ASSERT_TRUE(attention(with.args, Stream::cpu(3)).ok());
    const std::vector<double> o = none.o.values(), found = with.o.values();
    for (std::size_t b = 0; b < 2; ++b) {
      for (std::size_t h = 0; h < 4; ++h) {
        for (std::size_t i = 0; i < 37; ++i) {
          const std::size_t sum = (b * 4 + h) * 37 + i, row = ((b * 37 + i) * 4 + h) * 64;
          const double before = none.sums[sum], after = with.sums[sum];
          if (std::isinf(before)) {
            EXPECT_EQ(with.sums[sum], sinks[h]);
          } else {
            EXPECT_NEAR(after, std::log(std::exp(before) + std::exp(static_cast<double>(sinks[h]))), 1e-5);
          }
          for (std::size_t c = 0; c < 64; ++c) {
            const double right = std::isinf(before) ? 0.0 : o[row + c] * std::exp(before - after);
            ASSERT_NEAR(found[row + c], right, 0.01 * std::fabs(right) + 1e-6) << h << ", " << i;
            if (h == 3) {
              ASSERT_EQ(found[row + c], o[row + c]) << "a sink of -infinity is none";
            }
          }
        }
      }
    }
  }
}

TEST(Attention, ASinkThatIsNoNumberStaysWithItsHead) {
  for (const float special : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Problem problem(10, 4, false, true);  // the first six queries see nothing
    std::vector<float> sinks = {0.0f, special, 0.0f, 0.0f};
    problem.args.sinks = TensorView::contiguous(sinks.data(), DType::kF32, {4});
    ASSERT_TRUE(attention(problem.args, Stream::cpu()).ok());
    const std::vector<double> o = problem.o.values();
    for (std::size_t h = 0; h < 4; ++h) {
      for (std::size_t i = 0; i < 10; ++i) {
        const double first = o[(i * 4 + h) * 64];
        const float sum = problem.sums[h * 10 + i];
        if (h == 1 && i >= 6) {
          EXPECT_TRUE(std::isnan(first) && std::isnan(sum)) << i;
        } else {
          EXPECT_TRUE(std::isfinite(first));
          const bool own = std::isinf(special) ? sum == special : std::isnan(sum);
          EXPECT_TRUE(h == 1 ? own : std::isfinite(sum)) << "the sink itself";
        }
      }
    }
  }
}

// What a kernel gives that runs a case as `run` says it, and reads others than those of the call for a vector of heads.
std::string judged_with(const char* vector, const std::string& words, const std::string& run,
                        const std::function<void(std::vector<double>&)>& change) {
  const ops::Operator& op = **ops::find_operator("attention");
  const auto bound = [&](const std::string& more) {
    return *op.bind(*record::parse_case("attention heads=4 kv_heads=2 q_len=50 k_len=70 dim=64 " + more));
  };
  const ops::Problem problem = bound(words);
  const Operands before = make_operands(problem, kPacked, 4);
  Operands after = make_operands(problem, kPacked, 4);
  const std::size_t at = *problem.position(vector);
  const std::vector<double> right = before.all[at].values();
  std::vector<double> wrong = right;
  change(wrong);
  after.all[at].assign(wrong);
  const ops::Implementation& tiles = **ops::find_implementation(op, "cpu_tiles");
  const Status status = tiles.run(bound(run), {after.views(), after.scalars}, Stream::cpu());
  after.all[at].assign(right);
  return status ? judge(op, problem, before, after, 4) : status.error().text();
}

std::string judged_with_sinks(const std::function<void(std::vector<double>&)>& change) {
  const std::string words = "mask=causal sinks=1";
  return judged_with("sinks", words, words, change);
}

TEST(Attention, SinksThatAreWrongAreFound) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(judged_with_sinks([](auto&) {}), "");
  EXPECT_NE(judged_with_sinks([](auto& sinks) { sinks[2] = kNone; }), "") << "one is left out";
  EXPECT_NE(judged_with_sinks([](auto& sinks) { std::rotate(sinks.begin(), sinks.begin() + 1, sinks.end()); }), "");
  EXPECT_NE(judged_with_sinks([](auto& sinks) { sinks[1] = sinks[0]; }), "") << "one of k and v";
  EXPECT_NE(judged_with_sinks([](auto& sinks) {
              for (double& sink : sinks) sink *= 0.125;
            }),
            "")
      << "scaled";
  EXPECT_NE(judged_with_sinks([](auto& sinks) {
              for (double& sink : sinks) sink *= std::log(2.0);
            }),
            "")
      << "base 2";
  EXPECT_NE(judged_with_sinks([](auto& sinks) { sinks[3] += 0.03; }), "");
}

// The largest scores are the softcap and no more; small ones are what they are.
TEST(Attention, ASoftcapBoundsScores) {
  for (const double cap : {0.5, 8.0, 1e4}) {
    Problem problem(1, 1, false, false), alone(1, 1, false, false);  // the log-sum-exp is the score
    problem.args.softcap = cap;
    for (Problem* one : {&problem, &alone}) {
      one->args.scale = 0.3;
      ASSERT_TRUE(attention(one->args, Stream::cpu()).ok());
    }
    for (std::size_t i = 0; i < problem.sums.size(); ++i) {
      EXPECT_NEAR(problem.sums[i], cap * std::tanh(alone.sums[i] / cap), 1e-6 * (1 + std::fabs(alone.sums[i]))) << cap;
    }
    EXPECT_EQ(problem.o.values(), alone.o.values());
  }
}

TEST(Attention, ASoftcapThatIsWrongIsFound) {
  const ops::Operator& op = **ops::find_operator("attention");
  const ops::Implementation& tiles = **ops::find_implementation(op, "cpu_tiles");
  const auto problem = [&](const char* words) {
    return *op.bind(
        *record::parse_case(fmt::format("attention heads=4 kv_heads=2 q_len=50 k_len=70 dim=64 {}", words)));
  };
  const ops::Problem capped = problem("mask=causal softcap=1");
  const auto judged = [&](const ops::Problem& run, double cap, double scale) {
    Operands before = make_operands(capped, kPacked, 4);
    before.scalars[1] = record::Scalar::f64(2);
    Operands after = make_operands(capped, kPacked, 4);
    std::vector<record::Scalar> scalars = {record::Scalar::f64(before.scalars[0].real() * scale)};
    if (cap != 0) scalars.push_back(record::Scalar::f64(cap));
    const Status status = tiles.run(run, {after.views(), scalars}, Stream::cpu());
    return status ? judge(op, capped, before, after, 4) : status.error().text();
  };
  EXPECT_EQ(judged(capped, 2, 1), "");
  EXPECT_NE(judged(capped, 2.02, 1), "");
  EXPECT_NE(judged(capped, 2, 1.01), "");
  EXPECT_NE(judged(problem("mask=causal"), 0, 1), "") << "none";
  EXPECT_NE(judged(problem("mask=full softcap=1"), 2, 1), "");
}

TEST(Attention, ASoftcapThatIsNotAboveZeroIsRefused) {
  for (const double cap :
       {-1.0, 1e-60, 1e60, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Problem problem(3, 3, false, false);
    problem.args.softcap = cap;
    const Status status = attention(problem.args, Stream::cpu());
    ASSERT_FALSE(status.ok()) << cap;
    EXPECT_NE(status.error().text().find("give a finite number above 0, or 0 for none"), std::string::npos);
  }
}

// Scores are 0 beside the slopes: the weights are those of the distances alone.
TEST(Attention, SlopesWeighByDistance) {
  for (const auto& [q_len, k_len, causal] : {std::tuple{6, 9, true}, {6, 9, false}, {9, 4, false}}) {
    Problem problem(q_len, k_len, false, causal);
    problem.args.scale = 1e-30;
    std::vector<float> slopes = {0.5f, 0.0f, -0.25f, 2.0f};
    problem.args.alibi_slopes = TensorView::contiguous(slopes.data(), DType::kF32, {4});
    ASSERT_TRUE(attention(problem.args, Stream::cpu()).ok());
    for (int h = 0; h < 4; ++h) {
      for (int i = 0; i < q_len; ++i) {
        const double slope = slopes[static_cast<std::size_t>(h)];
        double sum = 0;
        for (int j = 0; j < k_len; ++j) {
          const int distance = i + k_len - q_len - j;
          if (!causal || distance >= 0) sum += std::exp(-slope * std::abs(distance));
        }
        EXPECT_NEAR(problem.sums[static_cast<std::size_t>(h * q_len + i)], std::log(sum), 1e-5) << h << " " << i;
      }
    }
  }
}

std::string judged_with_slopes(const std::string& run, const std::function<void(std::vector<double>&)>& change) {
  return judged_with("alibi_slopes", "alibi=1 mask=causal", "alibi=1 " + run, change);
}

TEST(Attention, SlopesThatAreWrongAreFound) {
  const std::string causal = "mask=causal";
  EXPECT_EQ(judged_with_slopes(causal, [](auto&) {}), "");
  EXPECT_NE(judged_with_slopes(causal, [](auto& slopes) { slopes[2] = 0; }), "") << "one is left out";
  EXPECT_NE(judged_with_slopes(causal, [](auto& slopes) { std::ranges::rotate(slopes, slopes.begin() + 1); }), "");
  EXPECT_NE(judged_with_slopes(causal, [](auto& slopes) { slopes[1] = slopes[0]; }), "") << "one of k and v";
  EXPECT_NE(judged_with_slopes(causal, [](auto& slopes) { slopes[0] = -slopes[0]; }), "") << "the other way";
  EXPECT_NE(judged_with_slopes(causal,
                               [](auto& slopes) {
                                 for (double& one : slopes) one *= 0.125;
                               }),
            "")
      << "scaled";
  EXPECT_NE(judged_with_slopes(causal, [](auto& slopes) { slopes[3] *= 1.02; }), "");
  EXPECT_NE(judged_with_slopes("mask=full", [](auto&) {}), "");
}

TEST(Attention, ASlopeThatIsNoNumberStaysWithItsHead) {
  Problem problem(10, 14, false, true);
  std::vector<float> slopes = {0.1f, std::numeric_limits<float>::quiet_NaN(), 0.1f, 0.1f};
  problem.args.alibi_slopes = TensorView::contiguous(slopes.data(), DType::kF32, {4});
  ASSERT_TRUE(attention(problem.args, Stream::cpu()).ok());
  const std::vector<double> o = problem.o.values();
  for (std::size_t h = 0; h < 4; ++h) {
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(std::isnan(o[(i * 4 + h) * 64]), h == 1);
      EXPECT_EQ(std::isnan(problem.sums[h * 10 + i]), h == 1);
    }
  }
}

TEST(Attention, CountsThePairsThatSeeEachOther) {
  for (const auto& [q_len, k_len] : {std::pair{7, 7}, {5, 19}, {19, 5}, {1, 6}, {6, 1}, {0, 4}, {4, 0}}) {
    for (int left = -1; left < 22; ++left) {
      for (int right = -1; right < 22; ++right) {
        ops::attention::Shape s;
        s.q_len = q_len, s.k_len = k_len;
        s.window = ops::attention::window_of(false, left, right, q_len, k_len);
        double pairs = 0;
        for (std::int64_t i = 0; i < q_len; ++i) {
          const std::vector<std::int64_t> keys = ops::attention::keys_seen(s, {}, i).keys;
          const ops::attention::Range range = s.keys_of(i);
          pairs += static_cast<double>(keys.size());
          ASSERT_EQ(range.end - range.begin, static_cast<std::int64_t>(keys.size()));
          ASSERT_TRUE(keys.empty() || (keys.front() == range.begin && keys.back() == range.end - 1));
          for (const std::int64_t j : keys) {
            const ops::attention::Range queries = s.queries_of(j, j);
            ASSERT_TRUE(queries.begin <= i && i < queries.end) << i << " " << j;
          }
        }
        EXPECT_EQ(ops::attention::visible_pairs(s), pairs) << q_len << " " << k_len << " " << left << " " << right;
      }
    }
  }
}

// What a kernel of `run` gives is judged by the reference of `like`.
std::string judged_as(const char* run, const char* like) {
  const ops::Operator& op = **ops::find_operator("attention");
  const ops::Problem runs = *op.bind(*record::parse_case(std::string("attention ") + run));
  const ops::Problem judges = *op.bind(*record::parse_case(std::string("attention ") + like));
  const Operands before = make_operands(judges, kPacked, 4);
  Operands after = make_operands(judges, kPacked, 4);
  const ops::Implementation& tiles = **ops::find_implementation(op, "cpu_tiles");
  const Status status = tiles.run(runs, {after.views(), after.scalars}, Stream::cpu());
  return status ? judge(op, judges, before, after, 4) : status.error().text();
}

TEST(Attention, AWindowThatIsOffByOneIsFound) {
  const char* right = "heads=2 kv_heads=1 q_len=90 k_len=130 dim=64 keys_left=21 keys_right=13";
  EXPECT_EQ(judged_as(right, right), "");
  for (const char* wrong :
       {"keys_left=20 keys_right=13", "keys_left=22 keys_right=13", "keys_left=21 keys_right=12",
        "keys_left=21 keys_right=14", "keys_left=21", "keys_right=13", "mask=causal keys_left=21"}) {
    const std::string words = fmt::format("heads=2 kv_heads=1 q_len=90 k_len=130 dim=64 {}", wrong);
    EXPECT_NE(judged_as(words.c_str(), right), "") << wrong;
  }
}

// Documents in one sequence, of four heads and two of k and v; offsets as they are given.
struct Packed {
  Tensor q, k, v, o;
  std::vector<float> sums;
  std::vector<std::int32_t> q_offsets, k_offsets;
  AttentionArgs args;

  Packed(std::vector<std::int32_t> of_queries, std::vector<std::int32_t> of_keys, std::int64_t q_len,
         std::int64_t k_len)
      : q(1, q_len, 4, 64, false, 1),
        k(1, k_len, 2, 64, true, 2),
        v(1, k_len, 2, 64, false, 3),
        o(1, q_len, 4, 64, true, 4),
        sums(static_cast<std::size_t>(4 * q_len), -7.0f),
        q_offsets(std::move(of_queries)),
        k_offsets(std::move(of_keys)) {
    args = {q.view, k.view, v.view, o.view, TensorView::contiguous(sums.data(), DType::kF32, {1, 4, q_len})};
    const auto offsets = [](std::vector<std::int32_t>& of) {
      return TensorView::contiguous(of.data(), DType::kI32, {static_cast<std::int64_t>(of.size())});
    };
    args.q_offsets = offsets(q_offsets);
    args.k_offsets = offsets(k_offsets);
  }
};

TensorView rows_of(TensorView view, std::int64_t first, std::int64_t end) {
  view.data = static_cast<char*>(view.data) + size_bytes(view.dtype, first * view.stride[1]);
  view.shape[1] = end - first;
  return view;
}

TEST(Attention, APackedDocumentIsThatDocumentAlone) {
  for (const bool causal : {false, true}) {
    for (const std::int64_t left : {-1, 20}) {
      Packed all({2, 35, 35, 80, 150}, {0, 40, 70, 70, 161}, 153, 170);
      all.args.causal = causal, all.args.window_left = left;
      ASSERT_TRUE(attention(all.args, Stream::cpu(3)).ok());
      const std::vector<double> o = all.o.values();
      for (std::size_t n = 0; n + 1 < all.q_offsets.size(); ++n) {
        const std::int64_t first = all.q_offsets[n], end = all.q_offsets[n + 1];
        if (first == end) continue;
        Tensor alone(1, end - first, 4, 64, false, 9);
        std::vector<float> sums(static_cast<std::size_t>(4 * (end - first)));
        AttentionArgs args = all.args;
        args.q = rows_of(all.q.view, first, end), args.o = alone.view;
        args.k = rows_of(all.k.view, all.k_offsets[n], all.k_offsets[n + 1]);
        args.v = rows_of(all.v.view, all.k_offsets[n], all.k_offsets[n + 1]);
        args.log_sum_exp = TensorView::contiguous(sums.data(), DType::kF32, {1, 4, end - first});
        args.q_offsets = args.k_offsets = TensorView();
        ASSERT_TRUE(attention(args, Stream::cpu()).ok());
        const std::vector<double> right = alone.values();
        for (std::size_t e = 0; e < right.size(); ++e) {
          ASSERT_EQ(o[static_cast<std::size_t>(first) * 4 * 64 + e], right[e]) << n << ", " << e;
        }
        for (std::int64_t h = 0; h < 4; ++h) {
          for (std::int64_t i = first; i < end; ++i) {
            ASSERT_EQ(all.sums[static_cast<std::size_t>(h * 153 + i)],
                      sums[static_cast<std::size_t>(h * (end - first) + i - first)]);
          }
        }
      }
      for (const std::int64_t i : {0, 1, 150, 152}) {  // of no document
        EXPECT_EQ(o[static_cast<std::size_t>(i) * 4 * 64], 0.0) << i;
        EXPECT_EQ(all.sums[static_cast<std::size_t>(i)], -std::numeric_limits<float>::infinity()) << i;
      }
    }
  }
}

TEST(Attention, WrongOffsetsAreSaidBeforeAnythingIsWritten) {
  const auto error = [](std::vector<std::int32_t> of_queries, std::vector<std::int32_t> of_keys) {
    Packed packed(std::move(of_queries), std::move(of_keys), 30, 20);
    const Tensor untouched(1, 30, 4, 64, true, 4);
    const Status status = attention(packed.args, Stream::cpu());
    EXPECT_EQ(packed.o.values(), untouched.values());
    EXPECT_EQ(packed.sums, std::vector<float>(4 * 30, -7.0f));
    return status.ok() ? std::string() : status.error().text();
  };
  EXPECT_NE(error({0, 9, 8}, {0, 5, 20}).find("q_offsets: offset 2 is 8, after 9 and of 30 rows"), std::string::npos);
  EXPECT_NE(error({0, 9, 30}, {0, 5, 21}).find("k_offsets: offset 2 is 21, after 5 and of 20 rows"), std::string::npos);
  EXPECT_NE(error({-1, 9, 30}, {0, 5, 20}).find("offset 0 is -1"), std::string::npos);
  EXPECT_NE(error({0, 9, 30}, {0, 20}).find("3 q_offsets and 2 k_offsets"), std::string::npos);
  EXPECT_NE(error({0}, {0}).find("0 groups"), std::string::npos);
  Packed packed({0, 30}, {0, 20}, 30, 20);
  packed.args.k_offsets = TensorView();
  const Status status = attention(packed.args, Stream::cpu());
  EXPECT_NE(status.error().text().find("k_offsets is missing"), std::string::npos) << status.error().text();
  Problem batch(30, 20, false, false);  // of two sequences
  batch.args.q_offsets = packed.args.q_offsets, batch.args.k_offsets = packed.args.q_offsets;
  EXPECT_NE(attention(batch.args, Stream::cpu()).error().text().find("in a batch of 2"), std::string::npos);
}

TEST(Attention, ADocumentThatIsOffByARowIsFound) {
  const ops::Operator& op = **ops::find_operator("attention");
  const ops::Implementation& tiles = **ops::find_implementation(op, "cpu_tiles");
  const auto judged = [&](const char* mask, const std::vector<double>& of_queries, const std::vector<double>& of_keys) {
    const auto problem = [&](const char* with) {
      return *op.bind(*record::parse_case(
          fmt::format("attention heads=2 kv_heads=1 q_len=120 k_len=150 dim=64 documents=3 {}", with)));
    };
    const auto operands = [&](const std::vector<double>& q, const std::vector<double>& k) {
      Operands made = make_operands(problem("mask=causal"), kPacked, 4);
      made.all[3].assign(q);
      made.all[4].assign(k);
      return made;
    };
    const Operands before = operands({0, 40, 70, 120}, {0, 30, 90, 150}), after = operands(of_queries, of_keys);
    const Status status = tiles.run(problem(mask), {after.views(), after.scalars}, Stream::cpu());
    return status ? judge(op, problem("mask=causal"), before, after, 4) : status.error().text();
  };
  EXPECT_EQ(judged("mask=causal", {0, 40, 70, 120}, {0, 30, 90, 150}), "");
  EXPECT_NE(judged("mask=full", {0, 40, 70, 120}, {0, 30, 90, 150}), "");
  EXPECT_NE(judged("mask=causal keys_left=50", {0, 40, 70, 120}, {0, 30, 90, 150}), "");
  EXPECT_NE(judged("mask=causal", {0, 40, 70, 120}, {0, 30, 90, 149}), "") << "its last key is lost";
  EXPECT_NE(judged("mask=causal", {0, 40, 70, 120}, {0, 30, 91, 150}), "") << "a key of its neighbour";
  EXPECT_NE(judged("mask=causal", {0, 40, 71, 120}, {0, 30, 90, 150}), "") << "a query of its neighbour";
  EXPECT_NE(judged("mask=causal", {0, 40, 70, 119}, {0, 30, 90, 150}), "") << "its last row is lost";
  EXPECT_NE(judged("mask=causal", {0, 120, 120, 120}, {0, 150, 150, 150}), "") << "all see each other";
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
  EXPECT_NE(error(args).find("give v the batch, length, heads and dtype of k"), std::string::npos) << error(args);
  args = problem.args;
  args.v.shape[3] = 48;
  EXPECT_NE(error(args).find("give o the shape and dtype of q, with the dim of v"), std::string::npos) << error(args);
  args.v = TensorView::contiguous(problem.v.bits.data(), DType::kBf16, {2, 8, 2, 257});
  EXPECT_NE(error(args).find("a value head dimension of 257 is not possible"), std::string::npos) << error(args);
  args = problem.args;
  args.q.stride[2] = 32;
  EXPECT_NE(error(args).find("rows of 64 elements must be contiguous"), std::string::npos) << error(args);
  args = problem.args;
  args.o = args.q;
  EXPECT_NE(error(args).find("overlaps"), std::string::npos) << error(args);
  std::vector<float> sinks(4);
  args = problem.args;
  args.sinks = TensorView::contiguous(sinks.data(), DType::kF32, {2});
  EXPECT_NE(error(args).find("give f32 [heads], the heads of q"), std::string::npos) << error(args);
  args.sinks = TensorView::contiguous(sinks.data(), DType::kBf16, {4});
  EXPECT_NE(error(args).find("give f32 [heads], the heads of q"), std::string::npos) << error(args);
  args.sinks = TensorView::contiguous(problem.sums.data(), DType::kF32, {4});
  EXPECT_NE(error(args).find("overlap"), std::string::npos) << error(args);
  args = problem.args;
  args.window_left = -2;
  EXPECT_NE(error(args).find("a window of -2 keys before a query and -1 behind it"), std::string::npos) << error(args);
  EXPECT_NE(error(args).find("numbers from 0, or -1 for as many as there are"), std::string::npos) << error(args);
  args = problem.args;
  args.q.dtype = DType::kF32;
  EXPECT_NE(error(args).find("give bf16 or f16"), std::string::npos) << error(args);
}

}  // namespace
}  // namespace ridge::testing
