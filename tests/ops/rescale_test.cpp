// What is particular to rescale: rows under a factor of 1 keep their bits, what the check after every launch catches,
// and what the arguments' check says.
#include "ridge/ops/rescale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/harness.h"
#include "record/case.h"

namespace ridge::testing {
namespace {

constexpr std::uint16_t kNan = 0x7fa5, kInfinity = 0x7f80, kTwo = 0x4000, kThree = 0x4040, kSix = 0x40c0;

Status rescaled(std::vector<std::uint16_t>& x, std::vector<float> factor, std::int64_t rows) {
  RescaleArgs args;
  args.factor = TensorView::contiguous(factor.data(), DType::kF32, {std::ssize(factor)});
  args.x = TensorView::contiguous(x.data(), DType::kBf16, {rows, std::ssize(x) / rows});
  return rescale(args, Stream::cpu(2));
}

TEST(Rescale, RowsUnderAFactorOfOneKeepTheirBits) {
  const std::vector<std::uint16_t> begun = {kNan, kTwo, kInfinity, kNan, kTwo, kInfinity};
  std::vector<std::uint16_t> x = begun;
  ASSERT_TRUE(rescaled(x, {1}, 2).ok());
  EXPECT_EQ(x, begun);
  ASSERT_TRUE(rescaled(x, {1, 3}, 2).ok());
  EXPECT_TRUE(std::equal(x.begin(), x.begin() + 3, begun.begin()));
  EXPECT_EQ(x[4], kSix);
  EXPECT_EQ(x[5], kInfinity);
  x = {kTwo, kThree};
  ASSERT_TRUE(rescaled(x, {3, 2}, 2).ok());
  EXPECT_EQ(x, (std::vector<std::uint16_t>{kSix, kSix}));
}

TEST(Rescale, ZeroTimesInfinityIsNan) {
  std::vector<std::uint16_t> x = {kInfinity, kTwo};
  ASSERT_TRUE(rescaled(x, {0}, 1).ok());
  EXPECT_GT(x[0] & 0x7fff, kInfinity);
  EXPECT_EQ(x[1], 0);
}

TEST(Rescale, TheCheckAfterEveryLaunchCatchesAFactorThatIsLeftOutOrUsedTwice) {
  const ops::Operator& op = **ops::find_operator("rescale");
  const ops::Problem problem = *op.bind(*record::parse_case("rescale rows=40 cols=300 dtype=f32"));
  for (const int times : {0, 1, 2}) {
    const Operands before = make_operands(problem, kPacked, 5);
    Operands after = make_operands(problem, kPacked, 5);
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(op.implementations.back().run(problem, {after.views(), after.scalars}, Stream::cpu()).ok());
    }
    const std::vector<TensorView> views = after.views_with_old(before);
    const auto found = op.spot_check(problem, {views, after.scalars}, 5);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->residual <= found->allowed, times == 1) << times;
  }
}

TEST(Rescale, SaysWhatIsWrongWithItsArguments) {
  std::vector<float> numbers(24);
  const auto says = [&](const RescaleArgs& args, const std::string& words) {
    const Status found = rescale(args, Stream::cpu());
    ASSERT_FALSE(found.ok()) << words;
    EXPECT_NE(found.error().text().find(words), std::string::npos) << found.error().text();
  };
  RescaleArgs args;
  args.x = TensorView::contiguous(numbers.data(), DType::kF32, {4, 5});
  args.factor = TensorView::contiguous(numbers.data() + 20, DType::kF32, {3});
  says(args, "factor is f32 [3]; it must be f32 [4]");
  args.factor = TensorView::contiguous(numbers.data() + 3, DType::kF32, {1});
  says(args, "x overlaps factor");
  args.x.dtype = DType::kU8;
  says(args, "x is u8 [4, 5]; this dtype is not supported");
}

}  // namespace
}  // namespace ridge::testing
