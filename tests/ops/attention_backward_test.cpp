// What is particular to the gradients of attention: that they are the derivatives of the forward, rows without keys,
// strides in any order, values that are not finite, and what the arguments' check says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dispatch/launch.h"
#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "ops/harness.h"
#include "ops/operand_memory.h"
#include "ridge/ops/attention.h"
#include "ridge/ops/attention_backward.h"

namespace ridge::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A tensor [batch, length, heads, dim] that lies as [batch, heads, length, dim] when `heads_first`.
struct Tensor {
  std::vector<std::uint16_t> bits;
  TensorView view;

  Tensor(std::int64_t length, std::int64_t heads, bool heads_first, unsigned seed) {
    constexpr std::int64_t kBatch = 2, kDim = 40;
    bits.assign(static_cast<std::size_t>(kBatch * length * heads * kDim), 0x7fff);
    view = TensorView::contiguous(bits.data(), DType::kBf16, {kBatch, length, heads, kDim});
    if (heads_first) view.stride = {length * heads * kDim, kDim, length * kDim, 1};
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal;
    for (std::int64_t e = 0; e < view.element_count(); ++e) numerics::store_element(view, e, normal(generator));
  }
  [[nodiscard]] std::vector<double> values() const { return numerics::to_doubles(view); }
};

// Four heads of q, two of k and v; the forward has run.
struct Problem {
  Tensor q, k, v, o, d_o, d_q, d_k, d_v;
  std::vector<float> sums;
  AttentionBackwardArgs args;

  Problem(std::int64_t q_len, std::int64_t k_len, bool heads_first, bool causal)
      : q(q_len, 4, heads_first, 1),
        k(k_len, 2, heads_first, 2),
        v(k_len, 2, heads_first, 3),
        o(q_len, 4, heads_first, 4),
        d_o(q_len, 4, heads_first, 5),
        d_q(q_len, 4, heads_first, 6),
        d_k(k_len, 2, heads_first, 7),
        d_v(k_len, 2, heads_first, 8),
        sums(static_cast<std::size_t>(8 * q_len)) {
    args.q = q.view;
    args.k = k.view;
    args.v = v.view;
    args.o = o.view;
    args.log_sum_exp = TensorView::contiguous(sums.data(), DType::kF32, {2, 4, q_len});
    args.d_o = d_o.view;
    args.d_q = d_q.view;
    args.d_k = d_k.view;
    args.d_v = d_v.view;
    args.causal = causal;
    run_forward();
  }
  void run_forward() {
    AttentionArgs forward;
    forward.q = args.q;
    forward.k = args.k;
    forward.v = args.v;
    forward.o = args.o;
    forward.log_sum_exp = args.log_sum_exp;
    forward.causal = args.causal;
    forward.sinks = args.sinks;
    ASSERT_TRUE(attention(forward, Stream::cpu()).ok());
  }
  void run(int threads = 1) { ASSERT_TRUE(attention_backward(args, Stream::cpu(threads)).ok()); }
};

// The gradients that the forward's entry names, against differences of its fp64 reference.
class AttentionGradients {
 public:
  explicit AttentionGradients(const std::string& words, const std::vector<std::vector<double>>& offsets = {},
                              double cap = 0)
      : op_(**ops::find_operator("attention")),
        problem_(*op_.bind(*record::parse_case(words))),
        memory_(problem_),
        output_(*problem_.position("o")) {
    for (const record::ScalarInfo& one : problem_.scalars) scalars_.push_back(one.usual);
    if (cap != 0) scalars_.back() = record::Scalar::f64(cap);
    for (const std::size_t i : inputs()) fill(memory_.views[i], static_cast<unsigned>(5 * i));
    for (std::size_t i = 0; i < offsets.size(); ++i) numerics::from_doubles(offsets[i], memory_.views[3 + i]);
    ops::Call forward = call_of(memory_.views);
    EXPECT_TRUE(dispatch::launch(op_, forward, Stream::cpu()).ok());
    upstream_ = numerics::to_doubles(memory_.views[output_]);
    for (std::size_t e = 0; e < upstream_.size(); ++e) upstream_[e] = eighths(e, 11);
  }

  void compare() {
    std::vector<std::vector<std::uint16_t>> memory;
    const auto like = [&](const TensorView& view) {
      memory.emplace_back(static_cast<std::size_t>(size_bytes(view.dtype, view.element_count()) / 2),
                          std::uint16_t{0x7fff});
      TensorView copy = view;
      copy.data = memory.back().data();
      return copy;
    };
    memory.reserve(5);
    const TensorView d_o = like(memory_.views[output_]);
    numerics::from_doubles(upstream_, d_o);
    std::vector<TensorView> found(output_);  // offsets have no gradient
    for (const std::size_t input : inputs()) found[input] = like(memory_.views[input]);
    const auto calls = ops::backward_calls(op_, problem_, {memory_.views, scalars_},
                                           std::vector<TensorView>{d_o, TensorView()}, found);
    ASSERT_TRUE(calls.ok()) << calls.error().text();
    ASSERT_EQ(calls->size(), 1u);
    ASSERT_TRUE(dispatch::launch(*calls->front().op, calls->front().call, Stream::cpu()).ok());
    for (const std::size_t input : inputs()) {
      const std::vector<double> gradient = numerics::to_doubles(found[input]);
      double size = 0;
      for (const double one : gradient) size = std::max(size, std::fabs(one));
      for (std::size_t e = 0; e < gradient.size(); ++e) {
        EXPECT_NEAR(gradient[e], difference(input, static_cast<std::int64_t>(e)), 0.004 * size)
            << problem_.problem_case.text() << ": " << problem_.operands[input].name << ", element " << e;
      }
    }
  }

 private:
  // Those that have a gradient.
  [[nodiscard]] std::vector<std::size_t> inputs() const {
    std::vector<std::size_t> all = {0, 1, 2};
    if (const auto sinks = problem_.position("sinks")) all.push_back(*sinks);
    return all;
  }
  static double eighths(std::size_t i, unsigned start) {
    return static_cast<double>((start + 7u * i) % 23u) / 8.0 - 1.25;
  }
  static void fill(const TensorView& view, unsigned start) {
    for (std::int64_t e = 0; e < view.element_count(); ++e) {
      numerics::store_element(view, e, eighths(static_cast<std::size_t>(e), start));
    }
  }
  ops::Call call_of(std::span<const TensorView> views) {
    ops::Call call;
    for (const std::int64_t value : problem_.values) call.values.push_back(value);
    for (const TensorView& view : views) call.operands.push_back(view);
    for (const record::Scalar scalar : scalars_) call.scalars.push_back(scalar);
    return call;
  }
  // Of the sum of o times what comes from above, by a step that fp16 holds exactly.
  double difference(std::size_t input, std::int64_t element) {
    constexpr double kStep = 0x1p-7;
    const double kept = numerics::load_element(memory_.views[input], element);
    const auto moved = [&](double by) {
      numerics::store_element(memory_.views[input], element, kept + by);
      const auto outputs = op_.reference(problem_, {memory_.views, scalars_});
      double sum = 0;
      for (std::size_t e = 0; e < upstream_.size(); ++e) sum += upstream_[e] * (*outputs)[0].value[e];
      return sum;
    };
    const double found = (moved(kStep) - moved(-kStep)) / (2 * kStep);
    numerics::store_element(memory_.views[input], element, kept);
    return found;
  }

  const ops::Operator& op_;
  ops::Problem problem_;
  OperandMemory memory_;
  std::size_t output_;
  std::vector<record::Scalar> scalars_;
  std::vector<double> upstream_;
};

TEST(AttentionBackward, GivesTheDerivativesOfTheForward) {
  for (const char* mask : {"full", "causal", "full keys_left=3 keys_right=2", "causal keys_left=1", "full keys_right=2",
                           "full keys_left=4"}) {
    AttentionGradients(
        fmt::format("attention batch=1 heads=4 kv_heads=2 q_len=5 k_len=7 dim=6 dtype=f16 mask={}", mask))
        .compare();
  }
}

TEST(AttentionBackward, GivesTheDerivativesOfValuesOfAnotherSize) {
  for (const char* sizes : {"dim=6 v_dim=10", "dim=7 v_dim=1", "dim=1 v_dim=5 keys_left=3"}) {
    AttentionGradients(fmt::format("attention heads=4 kv_heads=2 q_len=5 k_len=7 dtype=f16 mask=causal {}", sizes))
        .compare();
  }
}

TEST(AttentionBackward, GivesTheDerivativesOfDocuments) {
  for (const char* sinks : {"sinks=0", "sinks=1"}) {
    AttentionGradients(
        fmt::format("attention heads=4 kv_heads=2 q_len=9 k_len=11 dim=6 dtype=f16 mask=causal documents=2 {}", sinks),
        {{0, 4, 8}, {1, 6, 11}})
        .compare();
  }
}

TEST(AttentionBackward, GivesTheDerivativesOfSinks) {
  for (const char* words :
       {"q_len=5 k_len=7", "q_len=5 k_len=7 mask=causal", "q_len=5 k_len=7 keys_left=3 keys_right=2",
        "q_len=5 k_len=7 v_dim=4", "q_len=9 k_len=4 mask=causal"}) {
    AttentionGradients(fmt::format("attention batch=2 heads=4 kv_heads=2 dim=6 dtype=f16 sinks=1 {}", words)).compare();
  }
}

TEST(AttentionBackward, GivesTheDerivativesOfASoftcap) {
  for (const char* words : {"mask=causal", "keys_left=3 keys_right=2", "sinks=1 mask=causal", "v_dim=4"}) {
    AttentionGradients(fmt::format("attention heads=4 kv_heads=2 q_len=5 k_len=7 dim=6 dtype=f16 softcap=1 {}", words),
                       {}, 1.5)
        .compare();
  }
}

TEST(AttentionBackward, GivesTheDerivativesBesideSlopes) {
  for (const char* words : {"mask=causal", "keys_left=3 keys_right=2", "sinks=1 mask=causal softcap=1", "v_dim=4"}) {
    AttentionGradients(fmt::format("attention heads=4 kv_heads=2 q_len=5 k_len=7 dim=6 dtype=f16 alibi=1 {}", words),
                       {}, 1.5)
        .compare();
  }
}

// A kernel with no slopes, with those of other heads, and with others.
TEST(AttentionBackward, SlopesThatAreWrongAreFound) {
  const ops::Operator& op = **ops::find_operator("attention_backward");
  const ops::Problem problem = *op.bind(
      *record::parse_case("attention_backward heads=4 kv_heads=2 q_len=50 k_len=70 dim=64 mask=causal alibi=1"));
  const Operands before = make_operands(problem, kPacked, 4);
  const std::size_t at = *problem.position("alibi_slopes");
  const auto judged = [&](auto change) {
    Operands after = make_operands(problem, kPacked, 4);
    const std::vector<double> right = after.all[at].values();
    std::vector<double> wrong = right;
    change(wrong);
    after.all[at].assign(wrong);
    const ops::Implementation& tiles = **ops::find_implementation(op, "cpu_tiles");
    EXPECT_TRUE(tiles.run(problem, {after.views(), after.scalars}, Stream::cpu()).ok());
    after.all[at].assign(right);
    return judge(op, problem, before, after, 4);
  };
  EXPECT_EQ(judged([](auto&) {}), "");
  EXPECT_NE(judged([](auto& slopes) { std::ranges::fill(slopes, 0.0); }), "");
  EXPECT_NE(judged([](auto& slopes) { std::ranges::rotate(slopes, slopes.begin() + 1); }), "");
  EXPECT_NE(judged([](auto& slopes) { slopes[3] = -slopes[3]; }), "");
  EXPECT_NE(judged([](auto& slopes) { slopes[2] *= 1.05; }), "");
}

// A kernel without the slope of a score, or for another softcap.
TEST(AttentionBackward, ASoftcapThatIsWrongIsFound) {
  const ops::Operator& op = **ops::find_operator("attention_backward");
  const ops::Implementation& tiles = **ops::find_implementation(op, "cpu_tiles");
  const auto problem = [&](const char* words) {
    return *op.bind(*record::parse_case(
        fmt::format("attention_backward heads=4 kv_heads=2 q_len=50 k_len=70 dim=64 mask=causal {}", words)));
  };
  const ops::Problem capped = problem("softcap=1");
  const auto judged = [&](const ops::Problem& run, double cap, double scale) {
    Operands before = make_operands(capped, kPacked, 4);
    before.scalars[1] = record::Scalar::f64(0.5);
    Operands after = make_operands(capped, kPacked, 4);
    std::vector<record::Scalar> scalars = {record::Scalar::f64(before.scalars[0].real() * scale)};
    if (cap != 0) scalars.push_back(record::Scalar::f64(cap));
    const Status status = tiles.run(run, {after.views(), scalars}, Stream::cpu());
    return status ? judge(op, capped, before, after, 4) : status.error().text();
  };
  EXPECT_EQ(judged(capped, 0.5, 1), "");
  EXPECT_NE(judged(capped, 0.3, 1), "");
  EXPECT_NE(judged(capped, 0.5, 1.02), "");
  EXPECT_NE(judged(problem(""), 0, 1), "") << "none";
}

// All rows are equal, and all elements of one, so that what a kernel rounds it rounds the same way in each.
TEST(AttentionBackward, AGradientOfASinkOfEqualRowsIsCalledRight) {
  const ops::Operator& op = **ops::find_operator("attention_backward");
  const ops::Implementation& tiles = **ops::find_implementation(op, "cpu_tiles");
  const ops::Problem problem = *op.bind(
      *record::parse_case("attention_backward heads=1 kv_heads=1 q_len=60 k_len=5 dim=8 v_dim=256 dtype=f16 sinks=1"));
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Operands before = make_operands(problem, kPacked, seed), after = make_operands(problem, kPacked, seed);
    for (const char* name : {"q", "o", "d_o", "log_sum_exp"}) {
      const std::size_t at = *problem.position(name);
      std::vector<double> values = before.all[at].values();
      std::ranges::fill(values, values[0]);
      before.all[at].assign(values);
      after.all[at].assign(values);
    }
    ASSERT_TRUE(tiles.run(problem, {after.views(), after.scalars}, Stream::cpu()).ok());
    const auto right = op.reference(problem, {before.views(), before.scalars});
    const double error = after.all[*problem.position("d_sinks")].values()[0] - right->at(3).value[0];
    EXPECT_LE(std::fabs(error) / std::sqrt(right->at(3).ideal_square[0]), numerics::rms_limit(1)) << seed;
  }
}

// Gradients of sinks that are almost right.
TEST(AttentionBackward, GradientsOfSinksThatAreWrongAreFound) {
  const ops::Operator& op = **ops::find_operator("attention_backward");
  const ops::Problem problem = *op.bind(*record::parse_case(
      "attention_backward batch=2 heads=4 kv_heads=2 q_len=70 k_len=90 dim=64 mask=causal sinks=1"));
  const Operands before = make_operands(problem, kPacked, 4);
  const std::size_t at = *problem.position("d_sinks"), sinks = *problem.position("sinks");
  const auto judged = [&](auto change) {
    Operands after = make_operands(problem, kPacked, 4);
    const ops::Implementation& tiles = **ops::find_implementation(op, "cpu_tiles");
    EXPECT_TRUE(tiles.run(problem, {after.views(), after.scalars}, Stream::cpu()).ok());
    std::vector<double> found = after.all[at].values();
    change(found);
    after.all[at].assign(found);
    return judge(op, problem, before, after, 4);
  };
  EXPECT_EQ(judged([](auto&) {}), "");
  EXPECT_NE(judged([](auto& found) {
              for (double& one : found) one = -one;
            }),
            "");
  EXPECT_NE(judged([](auto& found) {
              for (double& one : found) one *= 1.0005;
            }),
            "")
      << "rounded to 16 bits";
  EXPECT_NE(judged([](auto& found) { std::swap(found[0], found[1]); }), "");
  EXPECT_NE(judged([](auto& found) {
              for (double& one : found) one /= 2;
            }),
            "")
      << "of one sequence";
  // Without its last row.
  EXPECT_NE(judged([&](auto& found) {
              const std::vector<double> o = before.all[3].values(), sums = before.all[4].values(),
                                        d_o = before.all[5].values();
              double delta = 0;
              for (std::size_t c = o.size() - 64; c < o.size(); ++c) delta += o[c] * d_o[c];
              found[3] += std::exp(before.all[sinks].values()[3] - sums.back()) * delta;
            }),
            "");
}

TEST(AttentionBackward, ASinkOfMinusInfinityHasNoGradientAndRowsWithoutKeysGiveNone) {
  Problem none(10, 4, false, true), with(10, 4, false, true);  // the first six queries see nothing
  std::vector<float> sinks(4, -std::numeric_limits<float>::infinity()), d_sinks(4, 7.0f);
  sinks[2] = 1.0f;
  with.args.sinks = TensorView::contiguous(sinks.data(), DType::kF32, {4});
  with.args.d_sinks = TensorView::contiguous(d_sinks.data(), DType::kF32, {4});
  with.run_forward();
  none.run();
  with.run(2);
  for (const std::size_t h : {0, 1, 3}) EXPECT_EQ(d_sinks[h], 0.0f) << h;
  EXPECT_NE(d_sinks[2], 0.0f);
  const std::vector<double> a = none.d_q.values(), b = with.d_q.values();
  for (std::size_t e = 0; e < a.size(); ++e) {
    const bool same = e / 40 % 4 == 2 || a[e] == b[e], empty = e / 160 % 10 < 6;
    ASSERT_TRUE(same && (!empty || b[e] == 0.0)) << e;
  }
}

TEST(AttentionBackward, ThereIsNoGradientThroughTheLogSumAndNoneAlone) {
  const ops::Operator& op = **ops::find_operator("attention");
  const ops::Problem problem = *op.bind(*record::parse_case("attention q_len=5 k_len=5 dim=8"));
  OperandMemory memory(problem);
  std::vector<TensorView> outputs = {memory.views[3], memory.views[4]},
                          inputs = {memory.views[0], memory.views[1], memory.views[2]};
  auto calls = ops::backward_calls(op, problem, {memory.views}, outputs, inputs);
  ASSERT_FALSE(calls.ok());
  EXPECT_NE(calls.error().text().find("no gradient through log_sum_exp"), std::string::npos) << calls.error().text();
  outputs[1] = TensorView();
  inputs[2] = TensorView();
  calls = ops::backward_calls(op, problem, {memory.views}, outputs, inputs);
  ASSERT_FALSE(calls.ok());
  EXPECT_NE(calls.error().text().find("give memory for all of them"), std::string::npos) << calls.error().text();
}

TEST(AttentionBackward, ReadsAndWritesStridesInAnyOrderWithEqualBitsForAnyThreads) {
  for (const bool causal : {false, true}) {
    Problem packed(37, 90, false, causal), turned(37, 90, true, causal);
    packed.run(1);
    turned.run(2);
    EXPECT_EQ(packed.d_q.values(), turned.d_q.values());
    EXPECT_EQ(packed.d_k.values(), turned.d_k.values());
    EXPECT_EQ(packed.d_v.values(), turned.d_v.values());
  }
}

TEST(AttentionBackward, ARowWithoutKeysAndAKeyWithoutRowsHaveGradientsOfZero) {
  Problem problem(10, 4, false, true);  // the first six queries see nothing
  problem.run();
  for (std::int64_t e = 0; e < 6 * 4 * 40; ++e) EXPECT_EQ(numerics::load_element(problem.d_q.view, e), 0.0);
  EXPECT_NE(numerics::load_element(problem.d_q.view, 7 * 4 * 40), 0.0);  // of one key the gradient is zero, too
  Problem nothing(0, 4, false, false);
  nothing.run();
  for (const double one : nothing.d_k.values()) EXPECT_EQ(one, 0.0);
  for (const double one : nothing.d_v.values()) EXPECT_EQ(one, 0.0);
}

TEST(AttentionBackward, WhatIsNotFiniteStaysWithItsHead) {
  for (const bool causal : {false, true}) {
    Problem clean(40, 70, true, causal), dirty(40, 70, true, causal);
    numerics::store_element(dirty.d_o.view, (5 * 4 + 3) * 40 + 1, kInfinity);  // sequence 0, query 5, head 3
    clean.run();
    dirty.run();
    const auto same = [](const Tensor& x, const Tensor& y, std::int64_t heads, std::int64_t other) {
      const std::vector<double> a = x.values(), b = y.values();
      std::size_t different = 0;
      for (std::size_t e = 0; e < a.size(); ++e) {
        const bool first_sequence = e < a.size() / 2;
        if (a[e] == b[e]) continue;
        EXPECT_TRUE(first_sequence && static_cast<std::int64_t>(e / 40) % heads == other) << e;
        ++different;
      }
      EXPECT_GT(different, 0u);
    };
    same(clean.d_q, dirty.d_q, 4, 3);
    same(clean.d_k, dirty.d_k, 2, 1);
    same(clean.d_v, dirty.d_v, 2, 1);
  }
}

// A query that sees two keys, whose scores are `gap` apart: the second one's value has next to no gradient.
std::string judged_of_two_keys(double gap) {
  const ops::Operator& op = **ops::find_operator("attention_backward");
  const ops::Problem problem =
      *op.bind(*record::parse_case("attention_backward batch=1 heads=1 kv_heads=1 q_len=1 k_len=2 dim=64 dtype=bf16"));
  const std::vector<double> ones(64, 1.0);
  std::vector<double> keys(128);
  const auto operands = [&] {
    Operands made = make_operands(problem, kPacked, 1);
    made.all[0].assign(ones);
    std::fill(keys.begin(), keys.begin() + 64, gap / (64 * made.scalars[0].real()));
    made.all[1].assign(keys);
    made.all[2].assign(std::vector<double>(128, 1.0));
    made.all[3].assign(ones);
    made.all[4].assign({gap});
    made.all[5].assign(std::vector<double>(64, 1024.0));
    return made;
  };
  const Operands before = operands();
  for (const ops::Implementation& implementation : op.implementations) {
    if (implementation.backend != Backend::kCpu) continue;
    const Operands after = operands();
    const Status status = implementation.run(problem, {after.views(), after.scalars}, Stream::cpu());
    const std::string wrong = status ? judge(op, problem, before, after, 2) : status.error().text();
    if (!wrong.empty()) return std::string(implementation.name) + ": " + wrong;
  }
  return {};
}

// A kernel for another window than that of the case.
std::string judged_in_window(const char* wrong) {
  const ops::Operator& op = **ops::find_operator("attention_backward");
  const auto problem = [&](const char* words) {
    return *op.bind(
        *record::parse_case(fmt::format("attention_backward heads=2 kv_heads=1 q_len=90 k_len=130 dim=64 {}", words)));
  };
  const ops::Problem runs = problem(wrong), judges = problem("keys_left=21 keys_right=13");
  const Operands before = make_operands(judges, kPacked, 4);
  Operands after = make_operands(judges, kPacked, 4);
  const ops::Implementation& tiles = **ops::find_implementation(op, "cpu_tiles");
  const Status status = tiles.run(runs, {after.views(), after.scalars}, Stream::cpu());
  return status ? judge(op, judges, before, after, 4) : status.error().text();
}

TEST(AttentionBackward, AWindowThatIsOffByOneIsFound) {
  EXPECT_EQ(judged_in_window("keys_left=21 keys_right=13"), "");
  for (const char* wrong :
       {"keys_left=20 keys_right=13", "keys_left=22 keys_right=13", "keys_left=21 keys_right=12",
        "keys_left=21 keys_right=14", "keys_left=21", "keys_right=13", "mask=causal keys_left=21"}) {
    EXPECT_NE(judged_in_window(wrong), "") << wrong;
  }
}

// Gradients of a kernel for other offsets or another mask, or of a log-sum-exp that is stale, judged by the right ones.
struct Documents {
  std::vector<double> of_queries = {0, 40, 70, 120}, of_keys = {0, 30, 90, 150};
  const char* mask = "mask=causal";
  float stale = 0;  // added to the log-sum-exp of the first document's last query
};
std::string judged_of_documents(const Documents& wrong) {
  const ops::Operator& op = **ops::find_operator("attention_backward");
  const auto problem = [&](const char* with) {
    return *op.bind(*record::parse_case(
        fmt::format("attention_backward heads=2 kv_heads=1 q_len=120 k_len=150 dim=64 documents=3 {}", with)));
  };
  const auto operands = [&](const Documents& of) {
    Operands made = make_operands(problem(of.mask), kPacked, 4);
    std::vector<double> sums = made.all[4].values();
    sums[39] += of.stale;
    made.all[4].assign(sums);
    made.all[6].assign(of.of_queries);
    made.all[7].assign(of.of_keys);
    return made;
  };
  const Operands before = operands({}), after = operands(wrong);
  const ops::Implementation& tiles = **ops::find_implementation(op, "cpu_tiles");
  const Status status = tiles.run(problem(wrong.mask), {after.views(), after.scalars}, Stream::cpu());
  return status ? judge(op, problem("mask=causal"), before, after, 4) : status.error().text();
}

TEST(AttentionBackward, ADocumentThatIsOffByARowIsFound) {
  EXPECT_EQ(judged_of_documents({}), "");
  EXPECT_NE(judged_of_documents({.mask = "mask=full"}), "");
  EXPECT_NE(judged_of_documents({.of_keys = {0, 30, 90, 149}}), "") << "its last key is lost";
  EXPECT_NE(judged_of_documents({.of_keys = {0, 31, 90, 150}}), "") << "a key of its neighbour";
  EXPECT_NE(judged_of_documents({.of_queries = {0, 40, 71, 120}}), "") << "a query of its neighbour";
  EXPECT_NE(judged_of_documents({.of_queries = {0, 40, 70, 119}}), "") << "its last row is lost";
  EXPECT_NE(judged_of_documents({.of_queries = {0, 120, 120, 120}, .of_keys = {0, 150, 150, 150}}), "");
  EXPECT_NE(judged_of_documents({.stale = 0.05f}), "");
  EXPECT_NE(judged_of_documents({.of_queries = {0, 40, 39, 120}}).find("q_offsets: offset 2 is 39, after 40"),
            std::string::npos);
}

TEST(AttentionBackward, WeightsBelowTheNormalNumbersMayBeZero) {
  for (const double gap : {80.0, 86.0, 88.0, 90.0, 100.0}) EXPECT_EQ(judged_of_two_keys(gap), "") << gap;
}

TEST(AttentionBackward, RefusesWithTheValues) {
  const auto refusal = [](auto change) {
    Problem problem(5, 7, false, false);
    change(problem);
    const Status status = attention_backward(problem.args, Stream::cpu());
    return status.ok() ? std::string() : status.error().text();
  };
  const auto says = [](const std::string& text, std::string_view words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  says(refusal([](Problem& p) { p.args.d_o.shape[1] = 4; }), "give d_o the shape and dtype of q");
  says(refusal([](Problem& p) { p.args.o.shape[3] = 24; }), "give o the shape and dtype of q, with the dim of v");
  says(refusal([](Problem& p) { p.args.d_v.shape[3] = 24; }), "give d_v the shape and dtype of v");
  says(refusal([](Problem& p) { p.args.sinks = TensorView::contiguous(p.sums.data(), DType::kF32, {4}); }),
       "sinks without d_sinks (give both or neither)");
  says(refusal([](Problem& p) { p.args.d_k.dtype = DType::kF16; }), "give d_k the shape and dtype of k");
  says(refusal([](Problem& p) { p.args.d_v = p.args.d_k; }), "overlap");
  says(refusal([](Problem& p) { p.args.d_q = p.args.q; }), "overlap");
  says(refusal([](Problem& p) { p.args.log_sum_exp.shape[2] = 4; }), "[batch, heads, q_len]");
  says(refusal([](Problem& p) { p.args.scale = -1; }), "a scale of -1");
  says(refusal([](Problem& p) { p.args.softcap = -1; }), "a softcap of -1");
  says(refusal([](Problem& p) { p.args.alibi_slopes = TensorView::contiguous(p.sums.data(), DType::kF32, {3}); }),
       "alibi_slopes is f32 [3]");
  says(refusal([](Problem& p) { p.args.window_right = -3; }), "a window of -1 keys before a query and -3 behind it");
  says(refusal([](Problem& p) { p.args.d_q.data = nullptr; }), "null");
}

}  // namespace
}  // namespace ridge::testing
