// What is particular to rope: tables of scaled frequencies, packed qkv in place, heads before tokens, positions that
// the table does not have, and that turning back gives what there was.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "ops/harness.h"
#include "ridge/ops/rope.h"

namespace ridge::testing {
namespace {

std::vector<float> normal(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& value : values) value = draw(generator);
  return values;
}

struct Table {
  std::int64_t rows, pairs;
  std::vector<float> cos, sin;
  Table(std::int64_t positions, std::int64_t rotary, const RopeFrequencies& how = {})
      : rows(positions), pairs(rotary / 2), cos(static_cast<std::size_t>(positions * rotary / 2), -9), sin(cos) {
    const Status made = rope_table(how, cosines(), sines());
    EXPECT_TRUE(made.ok()) << made.error().text();
  }
  TensorView cosines() { return TensorView::contiguous(cos.data(), DType::kF32, {rows, pairs}); }
  TensorView sines() { return TensorView::contiguous(sin.data(), DType::kF32, {rows, pairs}); }
};

// Llama 3.1: factor 8, low 1, high 4, 8192 positions, base 500000, dim 128. Short waves stay, long ones are stretched.
TEST(RopeTable, ScalesFrequenciesAsLlama3Does) {
  RopeFrequencies how;
  how.base = 500000;
  const auto plain = *rope_frequencies(128, how);
  how.scaling = RopeScaling::kLlama3;
  how.factor = 8;
  const auto scaled = *rope_frequencies(128, how);
  ASSERT_EQ(scaled.size(), 64u);
  for (std::size_t i = 0; i < 64; ++i) {
    const double wave = 2 * std::numbers::pi / plain[i];
    if (wave < 8192.0 / 4) {
      EXPECT_DOUBLE_EQ(scaled[i], plain[i]) << i;
    } else if (wave > 8192.0) {
      EXPECT_NEAR(scaled[i], plain[i] / 8, 1e-15) << i;
    } else {
      const double smooth = (8192 / wave - 1) / 3;
      EXPECT_NEAR(scaled[i], (1 - smooth) * plain[i] / 8 + smooth * plain[i], 1e-15) << i;
    }
  }
  EXPECT_DOUBLE_EQ(plain[0], 1);
  EXPECT_NEAR(plain[32], 1 / std::sqrt(500000.0), 1e-15);
}

// DeepSeek-V3: base 10000, factor 40, 4096 positions, 64 rotary elements, beta 32 and 1: the ramp is from pair 10
// to 23.
TEST(RopeTable, ScalesFrequenciesAsYarnDoes) {
  RopeFrequencies how;
  const auto plain = *rope_frequencies(64, how);
  how.scaling = RopeScaling::kYarn;
  how.factor = 40;
  how.original_length = 4096;
  const auto scaled = *rope_frequencies(64, how);
  for (std::size_t i = 0; i < 32; ++i) {
    const double ramp = std::fmin(std::fmax((static_cast<double>(i) - 10) / 13, 0.0), 1.0);
    EXPECT_NEAR(scaled[i], plain[i] / 40 * ramp + plain[i] * (1 - ramp), 1e-15) << i;
  }
  Table table(3, 64, how);
  EXPECT_NEAR(table.cos[0], 0.1 * std::log(40.0) + 1, 1e-6) << "the amplitude";
  how.attention = 2;
  EXPECT_FLOAT_EQ(Table(1, 64, how).cos[0], 2);
}

TEST(RopeTable, SaysWhatIsWrong) {
  RopeFrequencies how;
  EXPECT_NE(rope_frequencies(7, how).error().text().find("rotary dimension of 7"), std::string::npos);
  how.base = -1;
  EXPECT_NE(rope_frequencies(8, how).error().text().find("base is -1"), std::string::npos);
  how = {.scaling = RopeScaling::kLlama3, .factor = 8, .low_factor = 4, .high_factor = 4};
  EXPECT_NE(rope_frequencies(8, how).error().text().find("high_factor is 4"), std::string::npos);
  how = {.scaling = RopeScaling::kLinear, .factor = 0};
  EXPECT_NE(rope_frequencies(8, how).error().text().find("factor is 0"), std::string::npos);
}

// q and k of a packed [batch, length, heads + 2 kv_heads, dim], turned where they lie; v keeps its bits.
TEST(Rope, TurnsPartsOfAPackedTensorInPlaceAndBack) {
  const std::int64_t batch = 2, length = 5, heads = 4, kv = 2, dim = 32, all = heads + 2 * kv;
  Table table(9, 24);
  std::vector<float> qkv = normal(static_cast<std::size_t>(batch * length * all * dim), 3);
  const std::vector<float> before = qkv;
  const auto part = [&](std::int64_t first, std::int64_t count) {
    TensorView view = TensorView::contiguous(qkv.data() + first * dim, DType::kF32, {batch, length, count, dim});
    view.stride = {length * all * dim, all * dim, dim, 1};
    return view;
  };
  RopeArgs args;
  args.q = args.q_out = part(0, heads);
  args.k = args.k_out = part(heads, kv);
  args.cos = table.cosines(), args.sin = table.sines();
  args.offset = 4;
  Status status = rope(args, Stream::cpu(2));
  ASSERT_TRUE(status.ok()) << status.error().text();
  const auto at = [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t e) {
    return static_cast<std::size_t>(((b * length + t) * all + h) * dim + e);
  };
  for (std::int64_t h = 0; h < all; ++h) {
    const std::size_t one = at(1, 3, h, 5), other = at(1, 3, h, 17), tail = at(1, 3, h, 24);
    const float c = table.cos[7 * 12 + 5], s = table.sin[7 * 12 + 5];
    const bool turned = h < heads + kv;
    EXPECT_NEAR(qkv[one], turned ? before[one] * c - before[other] * s : before[one], 1e-6) << h;
    EXPECT_NEAR(qkv[other], turned ? before[other] * c + before[one] * s : before[other], 1e-6) << h;
    EXPECT_EQ(qkv[tail], before[tail]) << "behind the rotary part";
  }
  args.inverse = true;
  ASSERT_TRUE(rope(args, Stream::cpu()).ok());
  for (std::size_t i = 0; i < qkv.size(); ++i) ASSERT_NEAR(qkv[i], before[i], 2e-6) << i;
}

// [batch, heads, length, dim] in memory, with the positions of one sequence for all.
TEST(Rope, TakesHeadsBeforeTokensAndSharedPositions) {
  const std::int64_t batch = 2, length = 3, heads = 4, dim = 16;
  Table table(50, dim);
  std::vector<float> q = normal(static_cast<std::size_t>(batch * length * heads * dim), 5), out(q.size()),
                     plain(q.size()), dense(q.size());
  std::vector<std::int32_t> positions = {40, 2, 17};
  const auto view = [&](std::vector<float>& memory, bool heads_first) {
    TensorView made = TensorView::contiguous(memory.data(), DType::kF32, {batch, length, heads, dim});
    if (heads_first) made.stride = {heads * length * dim, dim, length * dim, 1};
    return made;
  };
  RopeArgs args;
  args.q = view(q, true), args.q_out = view(out, true);
  args.cos = table.cosines(), args.sin = table.sines();
  args.positions = TensorView::contiguous(positions.data(), DType::kI32, {batch, length});
  args.positions.stride[0] = 0;
  args.interleaved = true;
  Status status = rope(args, Stream::cpu(2));
  ASSERT_TRUE(status.ok()) << status.error().text();
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t t = 0; t < length; ++t) {
        for (std::int64_t i = 0; i < dim / 2; ++i) {
          const auto e = static_cast<std::size_t>(((b * heads + h) * length + t) * dim + 2 * i);
          const auto p = static_cast<std::size_t>(positions[static_cast<std::size_t>(t)] * dim / 2 + i);
          ASSERT_NEAR(out[e], q[e] * table.cos[p] - q[e + 1] * table.sin[p], 1e-6);
          ASSERT_NEAR(out[e + 1], q[e + 1] * table.cos[p] + q[e] * table.sin[p], 1e-6);
        }
      }
    }
  }
}

TEST(Rope, SaysWhatIsWrongWithACall) {
  Table table(6, 8);
  std::vector<float> memory(2 * 3 * 2 * 8, 1), out(memory.size(), -3);
  std::vector<std::int64_t> positions = {0, 1, 2, 3, 6, 5};
  RopeArgs args;
  args.q = TensorView::contiguous(memory.data(), DType::kF32, {2, 3, 2, 8});
  args.q_out = TensorView::contiguous(out.data(), DType::kF32, {2, 3, 2, 8});
  args.cos = table.cosines(), args.sin = table.sines();
  const auto refused = [](const RopeArgs& call) {
    const Status status = rope(call, Stream::cpu());
    return status.ok() ? std::string("no error") : status.error().text();
  };
  RopeArgs wrong = args;
  wrong.offset = 4;
  EXPECT_NE(refused(wrong).find("positions 4 to 6 of a table of 6 rows"), std::string::npos) << refused(wrong);
  wrong = args;
  wrong.positions = TensorView::contiguous(positions.data(), DType::kI64, {2, 3});
  EXPECT_NE(refused(wrong).find("token 1 of sequence 1 is 6; the table has 6 rows"), std::string::npos);
  EXPECT_EQ(out[0], -3) << "written before the positions were looked at";
  wrong = args;
  wrong.q_out.data = memory.data() + 1;
  EXPECT_NE(refused(wrong).find("q_out overlaps q"), std::string::npos) << refused(wrong);
  wrong = args;
  wrong.k = args.q;
  EXPECT_NE(refused(wrong).find("k is given without k_out"), std::string::npos);
  Table wide(6, 10);
  wrong = args;
  wrong.cos = wide.cosines(), wrong.sin = wide.sines();
  EXPECT_NE(refused(wrong).find("a rotary dimension of 10 in heads of 8"), std::string::npos);
  EXPECT_EQ(refused(args), "no error");
}

}  // namespace
}  // namespace ridge::testing
