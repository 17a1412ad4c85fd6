// What distinguishes prepared launches, without a device.
#include "ops/call_key.h"

#include <gtest/gtest.h>

namespace ridge::ops {
namespace {

// A call of `operand_count` operands of rank 5 and `param_count` parameters; bind() has no part in a key.
struct Example {
  Problem problem;
  std::vector<TensorView> operands;
  Stream stream = Stream::cpu();

  Example(std::size_t operand_count, std::size_t param_count) {
    problem.values.assign(param_count, 3);
    for (std::size_t i = 0; i < operand_count; ++i) {
      operands.push_back(TensorView::contiguous(nullptr, DType::kBf16, {2, 3, 4, 5, 64}));
    }
  }
  [[nodiscard]] CallKey key() const { return launch_key(problem, operands, stream); }
};

bool equal(const CallKey& a, const CallKey& b) { return std::ranges::equal(a.words(), b.words()); }

bool needs_heap(const CallKey& key) {
  const auto* const first = reinterpret_cast<const std::byte*>(&key);
  const auto* const data = reinterpret_cast<const std::byte*>(key.words().data());
  return data < first || data >= first + sizeof key;
}

TEST(CallKey, HoldsEveryStrideOfEveryOperand) {
  for (const std::size_t count : {std::size_t{1}, kWarmOperands, std::size_t{40}}) {
    Example example(count, 5);
    const CallKey before = example.key();
    for (std::size_t operand = 0; operand < count; ++operand) {
      for (std::size_t d = 0; d < kMaxRank; ++d) {
        std::int64_t& stride = example.operands[operand].stride[d];
        stride += 64;  // on the same alignment
        EXPECT_FALSE(equal(before, example.key())) << "operand " << operand << ", stride " << d;
        stride -= 64;
      }
    }
    EXPECT_TRUE(equal(before, example.key()));
  }
}

// The fault that this key replaces one with: two strides an operand.
TEST(CallKey, TellsViewsOfRankFourApartThatDifferInTheirThirdStride) {
  Example example(1, 1);
  example.operands[0] = TensorView::contiguous(nullptr, DType::kF16, {2, 128, 8, 64});
  const CallKey dense = example.key();
  example.operands[0].stride[2] = 3 * 64;  // q of a packed qkv whose other strides are the same
  EXPECT_FALSE(equal(dense, example.key()));
}

TEST(CallKey, HoldsParametersTypesRanksAlignmentDeviceAndConfiguration) {
  const Example example(3, 4);
  const auto differs = [&](auto change) {
    Example other = example;
    change(other);
    return !equal(example.key(), other.key());
  };
  EXPECT_TRUE(differs([](Example& e) { e.problem.values[3] = 4; }));
  EXPECT_TRUE(differs([](Example& e) { e.problem.configuration = 2; }));
  EXPECT_TRUE(differs([](Example& e) { e.stream.device = 1; }));
  EXPECT_TRUE(differs([](Example& e) { e.operands[1].dtype = DType::kF16; }));
  EXPECT_TRUE(differs([](Example& e) { e.operands[2].rank = 4; }));
  EXPECT_TRUE(differs([](Example& e) { e.operands[0].data = reinterpret_cast<void*>(8); }));
  EXPECT_FALSE(differs([](Example& e) { e.operands[0].data = reinterpret_cast<void*>(4096); }));
}

TEST(CallKey, NeedsNoHeapForSixteenOperandsOfRankFiveAndTwentyFourParameters) {
  static_assert(kWarmOperands >= 16 && kWarmParams >= 24);
  EXPECT_FALSE(needs_heap(Example(16, 24).key()));
  EXPECT_TRUE(needs_heap(Example(40, 30).key()));
}

TEST(CallKey, FindsAgainWhatIsInTheTableWhateverItsSize) {
  CallTable<int> table;
  int next = 0;
  for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{16}, std::size_t{40}}) {
    table.add(Example(count, 24).key(), next++);
  }
  next = 0;
  for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{16}, std::size_t{40}}) {
    const int* const found = table.find(Example(count, 24).key());
    ASSERT_NE(found, nullptr) << count;
    EXPECT_EQ(*found, next++);
    Example other(count, 24);
    other.problem.values.back() = 4;
    EXPECT_EQ(table.find(other.key()), nullptr) << count;
  }
}

}  // namespace
}  // namespace ridge::ops
