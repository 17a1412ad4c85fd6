// What is particular to attention of codes: an emulation of the kernel for Hopper is within the contract in every
// family of inputs and with every mask, and kernels that do less than they say are not; the order of keys that the
// kernel counts on; what the arguments' check says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "ops/attention/fp8/fp8.h"
#include "ops/attention_fp8_emulation.h"
#include "ops/cuda_on_host.h"
#include "ops/harness.h"
#include "ridge/ops/attention_fp8.h"

#define __forceinline__ inline
struct uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
template <class T>
T __ldg(const T* at) {
  return *at;
}
// The bytes of y behind those of x; one of them for each digit of the selector, the last digit first.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t both = x | static_cast<std::uint64_t>(y) << 32;
  unsigned made = 0;
  for (unsigned i = 0; i < 4; ++i) {
    made |= static_cast<unsigned>(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  }
  return made;
}
namespace ridge::cuda {
using u8 = unsigned char;
using u32 = unsigned;
using i64 = long long;
inline void let_next_grid_start() {}
}  // namespace ridge::cuda
#include "ops/attention/fp8/turned_values.cuh"

namespace ridge::testing {
namespace {

// ---- The order of keys

// The bytes that lanes have of weights when they pack the accumulators of Q K^T in their order, four to a register, are
// where the operand of the next product has them (src/device/cuda/kernel/wgmma.cuh), if a row's keys are in the order
// of key_at().
TEST(AttentionFp8, PackedAccumulatorsAreTheOperandOfKeysInOrder) {
  constexpr int kKeys = 32;
  int found[kKeys];
  std::fill(std::begin(found), std::end(found), -1);
  for (int lane = 0; lane < 4; ++lane) {  // that share a row
    for (int half = 0; half < 2; ++half) {
      const int at = 16 * half + 4 * lane;  // of the four bytes that a register of the operand holds
      for (int byte = 0; byte < 4; ++byte) {
        const int group = 2 * half + byte / 2;               // of eight columns of accumulators
        const int column = 8 * group + 2 * lane + byte % 2;  // d[4 * group + byte % 2] of the lane's row
        ASSERT_EQ(found[at + byte], -1);
        found[at + byte] = column;
      }
    }
  }
  for (int place = 0; place < kKeys; ++place) {
    EXPECT_EQ(found[place], place / 16 * 16 + static_cast<int>(cuda::key_at(static_cast<unsigned>(place) % 16)))
        << place;
  }
}

// Every code of V at its column and the place of its key, zeros behind the last key, and nothing else.
TEST(AttentionFp8, ValuesAreTurnedWithTheirKeysInOrder) {
  if (!kFibersRun) GTEST_SKIP() << "sanitizers do not follow fibers";
  constexpr unsigned kBatch = 2, kHeads = 2;
  for (const unsigned columns : {16u, 48u, 128u}) {
    for (const unsigned keys : {1u, 100u, 300u}) {
      const unsigned tiles = (keys + 127) / 128, gap = 16;
      const unsigned head_stride = columns + gap, key_stride = kHeads * head_stride, batch_stride = keys * key_stride;
      std::vector<unsigned char> v(kBatch * batch_stride), turned(kBatch * kHeads * columns * tiles * 128, 0xff);
      for (std::size_t e = 0; e < v.size(); ++e) v[e] = static_cast<unsigned char>(e * 37 + e / 251);
      gridDim = {tiles, kBatch * kHeads, 1};
      HostBlock block(cuda::kTurningThreads);
      for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y) {
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
          block.run([&] {
            ridge_attention_turn_values(v.data(), turned.data(), batch_stride, key_stride, head_stride, keys, kHeads,
                                        columns);
          });
        }
      }
      for (unsigned row = 0; row < kBatch * kHeads * columns; ++row) {
        for (unsigned place = 0; place < tiles * 128; ++place) {
          const unsigned key = place / 16 * 16 + cuda::key_at(place % 16), head = row / columns;
          const unsigned from = head / kHeads * batch_stride + key * key_stride + head % kHeads * head_stride;
          const unsigned want = key < keys ? v[from + row % columns] : 0u;
          ASSERT_EQ(turned[row * tiles * 128 + place], want) << columns << " columns, row " << row << ", key " << key;
        }
      }
    }
  }
}

// ---- The emulated kernel

using emulated::Emulation, emulated::Kernel, emulated::Results;

// Largest |error| / allowed, and the RMS over that of the ideal kernel, of o and of the log-sum-exp.
struct Found {
  double worst[2] = {}, rms[2] = {};
  std::int64_t count[2] = {};
  [[nodiscard]] bool right() const {
    for (int i = 0; i < 2; ++i) {
      if (worst[i] > 1 || rms[i] > numerics::rms_limit(count[i])) return false;
    }
    return true;
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("o {:.3f} of the bound, RMS {:.3f}; log-sum-exp {:.3f}, {:.3f}", worst[0], rms[0], worst[1],
                       rms[1]);
  }
};

using Change = std::function<void(Operands&)>;

Found held(const std::string& words, const Kernel& kernel, numerics::Family family = numerics::Family::kNormal,
           const Change& change = {}) {
  const ops::Operator& op = **ops::find_operator("attention_fp8");
  const ops::Problem problem = *op.bind(*record::parse_case("attention_fp8 " + words));
  Operands operands = make_operands(problem, kPacked, 7);
  for (std::size_t i = 0; i < 6; ++i) {
    ops::fill_input(problem.operands[i].fill, operands.all[i].view(), family, 20 + i);
  }
  if (change) change(operands);
  const Results found = Emulation(problem, operands, kernel).run();
  const auto expected = op.reference(problem, {operands.views(), operands.scalars});
  Found made;
  for (int i = 0; i < 2; ++i) {
    const ops::ReferenceOutput& right = (*expected)[static_cast<std::size_t>(i)];
    const std::vector<double>& values = i == 0 ? found.o : found.sums;
    for (std::size_t e = 0; e < values.size(); ++e) {
      if (values[e] == right.value[e]) continue;
      const double error = std::abs(values[e] - right.value[e]);
      made.worst[i] = std::max(made.worst[i], error / right.allowed[e]);
      made.rms[i] += error * error / right.ideal_square[e];
    }
    made.count[i] = static_cast<std::int64_t>(values.size());
    made.rms[i] = std::sqrt(made.rms[i] / static_cast<double>(values.size()));
  }
  return made;
}

constexpr const char* kCases[] = {"heads=2 kv_heads=1 q_len=24 k_len=300 dim=64",
                                  "heads=4 kv_heads=2 q_len=40 k_len=40 dim=128 mask=causal out=f16",
                                  "batch=2 heads=2 kv_heads=2 q_len=9 k_len=700 dim=128 mask=causal keys_left=200",
                                  "heads=1 kv_heads=1 q_len=4 k_len=4096 dim=64 v_dim=32"};

TEST(AttentionFp8, ARightKernelIsWithinTheContractInEveryFamily) {
  const ops::Operator& op = **ops::find_operator("attention_fp8");
  for (const char* words : kCases) {
    for (const numerics::Family family : numerics::kAllFamilies) {
      if (op.excuses(*op.bind(*record::parse_case(fmt::format("attention_fp8 {}", words))), family)) continue;
      for (const double lazy : {0.0, 2.0}) {
        Kernel kernel;
        kernel.lazy = lazy;
        const Found found = held(words, kernel, family);
        EXPECT_TRUE(found.right()) << words << ", " << numerics::to_string(family) << ", lazy " << lazy << ": "
                                   << found.text();
      }
    }
  }
}

// Weights of two bits, which have twice the error, are at the limit of the RMS; those of one bit are beyond it.
TEST(AttentionFp8, AKernelThatDoesLessThanItSaysIsNotWithinTheContract) {
  Kernel coarse, wrong_scales;
  coarse.weight_bits = 1;
  wrong_scales.scales_of_next_head = true;
  for (const char* words : kCases) {
    const Found of_coarse = held(words, coarse);
    EXPECT_FALSE(of_coarse.right()) << words << ": " << of_coarse.text();
  }
  for (const char* words : {kCases[0], kCases[1], kCases[2]}) {
    const Found of_scales = held(words, wrong_scales);
    EXPECT_FALSE(of_scales.right()) << words << ": " << of_scales.text();
  }
}

// Weights and values that are alike: what a sum over all keys loses of each is more than it keeps.
TEST(AttentionFp8, SumsThatStayInTheMatrixUnitAreNotWithinTheContract) {
  const auto alike = [](Operands& operands) {
    operands.all[0].assign(std::vector<double>(operands.all[0].values().size(), 0.0));
    std::vector<double> values = operands.all[2].values();
    for (double& value : values) value = numerics::round_to(DType::kE4m3fn, 1 + std::abs(value) / 8);
    operands.all[2].assign(values);
  };
  constexpr const char* kLong = "heads=1 kv_heads=1 q_len=1 k_len=16384 dim=16 v_dim=64";
  const Found right = held(kLong, {}, numerics::Family::kNormal, alike);
  EXPECT_TRUE(right.right()) << right.text();
  Kernel all_keys;
  all_keys.promotes = false;
  const Found wrong = held(kLong, all_keys, numerics::Family::kNormal, alike);
  EXPECT_FALSE(wrong.right()) << wrong.text();
}

// ---- Arguments

struct Call {
  std::vector<unsigned char> q, k, v;
  std::vector<float> q_scale = {1, 1}, k_scale = {1}, v_scale = {1};
  std::vector<std::uint16_t> o;
  std::vector<float> sums;
  AttentionFp8Args args;

  Call() : q(3 * 2 * 16, 0x38), k(5 * 16, 0x38), v(5 * 16, 0x38), o(3 * 2 * 16), sums(6) {
    args.q = TensorView::contiguous(q.data(), DType::kE4m3fn, {1, 3, 2, 16});
    args.k = TensorView::contiguous(k.data(), DType::kE4m3fn, {1, 5, 1, 16});
    args.v = TensorView::contiguous(v.data(), DType::kE4m3fn, {1, 5, 1, 16});
    args.q_scale = TensorView::contiguous(q_scale.data(), DType::kF32, {1, 2});
    args.k_scale = TensorView::contiguous(k_scale.data(), DType::kF32, {1, 1});
    args.v_scale = TensorView::contiguous(v_scale.data(), DType::kF32, {1, 1});
    args.o = TensorView::contiguous(o.data(), DType::kBf16, {1, 3, 2, 16});
    args.log_sum_exp = TensorView::contiguous(sums.data(), DType::kF32, {1, 2, 3});
  }
};

TEST(AttentionFp8, SaysWhatItTakes) {
  Call right;
  ASSERT_TRUE(attention_fp8(right.args, Stream::cpu()).ok());
  EXPECT_EQ(numerics::to_doubles(right.args.o), std::vector<double>(96, 1.0));
  EXPECT_NEAR(right.sums[0], 4 + std::log(5.0), 1e-5);
  const std::pair<std::function<void(AttentionFp8Args&)>, const char*> kWrong[] = {
      {[](auto& a) { a.q.dtype = a.k.dtype = a.v.dtype = DType::kE5m2; }, "give e4m3fn; attention takes bf16 and f16"},
      {[](auto& a) { a.k.dtype = DType::kE5m2; }, "give k the batch, dim and dtype of q"},
      {[](auto& a) { a.o.dtype = DType::kF32; }, "o cannot be f32"},
      {[](auto& a) { a.q_scale.shape[1] = 1; }, "give f32 [batch, heads of q]"},
      {[](auto& a) { a.k_scale.dtype = DType::kF16; }, "give f32 [batch, heads of k]"},
      {[](auto& a) { a.v_scale.shape[0] = 2; }, "give f32 [batch, heads of v]"},
      {[](auto& a) { a.scale = 0; }, "give a finite number above 0"},
      {[](auto& a) { a.window_left = -2; }, "give numbers from 0, or -1"},
      {[](auto& a) { a.log_sum_exp.data = a.q_scale.data; }, "log_sum_exp"},
      {[](auto& a) { a.o.data = a.q.data; }, "q"}};
  for (const auto& [change, text] : kWrong) {
    Call call;
    change(call.args);
    const Status status = attention_fp8(call.args, Stream::cpu());
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_NE(status.error().text().find(text), std::string::npos) << status.error().text();
  }
}

TEST(AttentionFp8, WhatAttentionAloneHasIsRefusedByName) {
  const ops::Operator& op = **ops::find_operator("attention_fp8");
  for (const char* name : {"sinks", "softcap", "alibi", "documents"}) {
    const auto bound = op.bind(*record::parse_case(fmt::format("attention_fp8 {}=1", name)));
    ASSERT_FALSE(bound.ok()) << name;
    EXPECT_NE(bound.error().text().find(name), std::string::npos) << bound.error().text();
  }
}

// A factor of scores that is none makes rows that see a key NaN, and no others.
TEST(AttentionFp8, AScaleThatIsNoneIsThatOfItsHead) {
  for (const float bad : {-1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Call call;
    call.args.causal = true;
    call.args.k.shape[1] = call.args.v.shape[1] = 2;  // the first query sees nothing
    call.q_scale[1] = bad;
    ASSERT_TRUE(attention_fp8(call.args, Stream::cpu()).ok());
    const std::vector<double> o = numerics::to_doubles(call.args.o);
    for (std::size_t e = 0; e < o.size(); ++e) {
      const bool sees = e >= 32, own = e / 16 % 2 == 1;
      EXPECT_EQ(std::isnan(o[e]), sees && own) << e;
      EXPECT_TRUE(sees || o[e] == 0) << e;
    }
    EXPECT_TRUE(std::isinf(call.sums[3]) && std::isnan(call.sums[4]) && std::isfinite(call.sums[1]));
  }
}

}  // namespace
}  // namespace ridge::testing
