// What is particular to embedding_backward: tokens that count for nothing, rows that no token names, ids that are no
// row, crowded rows shared out to threads, and a launch plan that fits.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "dispatch/launch.h"
#include "ops/arguments.h"
#include "ops/described_kernel.h"
#include "ops/harness.h"
#include "record/case.h"
#include "ridge/ops/embedding_backward.h"

namespace ridge::testing {
namespace {

const ops::Operator& the_operator() { return **ops::find_operator("embedding_backward"); }
ops::Problem bound(const std::string& words) {
  return *the_operator().bind(*record::parse_case("embedding_backward " + words));
}

// A call in f32 with memory of its own.
struct Batch {
  std::int64_t tokens, vocabulary, cols;
  std::vector<float> dy, dw;
  std::vector<std::int64_t> ids;

  Batch(std::int64_t count, std::int64_t rows, std::int64_t columns) : tokens(count), vocabulary(rows), cols(columns) {
    std::mt19937 generator(3);
    std::normal_distribution<float> normal(0, 1);
    for (std::int64_t i = 0; i < count * columns; ++i) dy.push_back(normal(generator));
    for (std::int64_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<std::int64_t>(generator() % static_cast<unsigned>(rows)));
    }
    dw.assign(static_cast<std::size_t>(rows * columns), std::nanf(""));
  }
  EmbeddingBackwardArgs args() {
    EmbeddingBackwardArgs call;
    call.dy = TensorView::contiguous(dy.data(), DType::kF32, {tokens, cols});
    call.ids = TensorView::contiguous(ids.data(), DType::kI64, {tokens});
    call.dw = TensorView::contiguous(dw.data(), DType::kF32, {vocabulary, cols});
    return call;
  }
  // One element after the other, in fp32.
  [[nodiscard]] float sum(std::int64_t row, std::int64_t column, std::int64_t padding = -1) const {
    float total = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const bool counts = ids[static_cast<std::size_t>(t)] == row && row != padding;
      if (counts) total += dy[static_cast<std::size_t>(t * cols + column)];
    }
    return total;
  }
  [[nodiscard]] float result(std::int64_t row, std::int64_t column) const {
    return dw[static_cast<std::size_t>(row * cols + column)];
  }
};

TEST(EmbeddingBackward, SumsAreInTheOrderOfTokensToTheBit) {
  for (const int threads : {1, 2, 5}) {
    Batch batch(3000, 40, 70);
    for (std::int64_t t = 0; t < 3000; ++t) {
      if (t % 3 != 0) batch.ids[static_cast<std::size_t>(t)] = 17;  // most tokens to one row
    }
    EmbeddingBackwardArgs args = batch.args();
    args.padding_idx = 5;
    ASSERT_TRUE(embedding_backward(args, Stream::cpu(threads)).ok());
    for (std::int64_t row = 0; row < 40; ++row) {
      for (std::int64_t j = 0; j < 70; ++j) ASSERT_EQ(batch.result(row, j), batch.sum(row, j, 5)) << row << ", " << j;
    }
  }
}

TEST(EmbeddingBackward, RowsThatNoTokenNamesAreZeroOrStay) {
  Batch batch(30, 900, 20);
  ASSERT_TRUE(embedding_backward(batch.args(), Stream::cpu(2)).ok());
  for (std::int64_t row = 0; row < 900; ++row) {
    for (std::int64_t j = 0; j < 20; ++j) ASSERT_EQ(batch.result(row, j), batch.sum(row, j));
  }
  batch.dw.assign(batch.dw.size(), std::nanf(""));  // a NaN that is read stays one
  for (const std::int64_t id : batch.ids) std::fill_n(batch.dw.begin() + id * 20, 20, 1.5F);
  EmbeddingBackwardArgs args = batch.args();
  args.accumulate = true;
  ASSERT_TRUE(embedding_backward(args, Stream::cpu(2)).ok());
  int named = 0;
  for (std::int64_t row = 0; row < 900; ++row) {
    const bool is_named = std::find(batch.ids.begin(), batch.ids.end(), row) != batch.ids.end();
    named += is_named ? 1 : 0;
    for (std::int64_t j = 0; j < 20; ++j) {
      if (is_named) {
        ASSERT_EQ(batch.result(row, j), 1.5F + batch.sum(row, j));
      } else {
        ASSERT_TRUE(std::isnan(batch.result(row, j)));
      }
    }
  }
  EXPECT_GT(named, 20);
}

TEST(EmbeddingBackward, AnIdThatIsNoRowIsAnErrorThatNamesTokenAndValue) {
  for (const std::int64_t wrong : {std::int64_t{40}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    Batch batch(30, 40, 8);
    batch.ids[21] = wrong;
    const Status status = embedding_backward(batch.args(), Stream::cpu());
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().text(), "embedding_backward: ids[21] is " + std::to_string(wrong) +
                                         "; the table has 40 rows (give numbers from 0 to 39)");
    EXPECT_TRUE(std::isnan(batch.dw[0])) << "written before the ids were looked at";
  }
}

TEST(EmbeddingBackward, TheCheckCatchesATokenThatIsLeftOutAndOneThatIsCountedTwice) {
  const ops::Problem problem = bound("tokens=200 vocabulary=20 cols=50 dtype=bf16 out=f32");
  for (const int change : {0, 1, 2}) {
    Operands operands = make_operands(problem, kPacked, 4);
    const std::vector<double> ids = operands.all[1].values();
    std::vector<double> other = ids;
    if (change == 1) other[100] = static_cast<double>((static_cast<int>(ids[100]) + 1) % 20);
    operands.all[1].assign(other);
    ASSERT_TRUE(the_operator().implementations.back().run(problem, operands.views(), Stream::cpu()).ok());
    operands.all[1].assign(ids);
    if (change == 2) {
      std::vector<double> dw = operands.all[2].values();
      dw[333] += dw[333] == 0 ? 0.01 : 0.01 * dw[333];
      operands.all[2].assign(dw);
    }
    const auto found = the_operator().spot_check(problem, operands.views(), 5);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->residual <= found->allowed, change == 0) << change;
  }
}

TEST(EmbeddingBackward, SaysWhatIsWrongWithACall) {
  const auto refused = [](const EmbeddingBackwardArgs& args) {
    const Status status = embedding_backward(args, Stream::cpu());
    return status.ok() ? std::string("no error") : status.error().text();
  };
  Batch batch(4, 8, 6);
  EmbeddingBackwardArgs args = batch.args();
  args.dw.dtype = DType::kBf16;
  EXPECT_EQ(refused(args), "embedding_backward: dw is bf16 and dy f32 (give dw of dy's dtype, or of f32)");
  args.accumulate = true;
  EXPECT_EQ(refused(args), "embedding_backward: dw is bf16 and is added to (give dw of f32)");
  args = batch.args();
  args.dw.shape[1] = args.dw.stride[0] = 5;
  EXPECT_NE(refused(args).find("give dw [vocabulary, cols] with the columns of dy"), std::string::npos);
  args = batch.args();
  args.dw = args.dy;
  EXPECT_NE(refused(args).find("overlap"), std::string::npos) << refused(args);
  args = batch.args();
  args.ids.shape[0] = 3;
  EXPECT_NE(refused(args).find("ids"), std::string::npos);
}

TEST(EmbeddingBackwardPlan, ScratchMemoryIsOfTokensAndRowsAndColumnsAreSharedOut) {
  const ops::DescribedKernel& kernel = ops::described_kernel("ops/embedding_backward/cuda_embedding_backward.cu");
  const auto plan_of = [&](const std::string& words) {
    const ops::Problem problem = bound(words);
    std::vector<TensorView> views;
    for (const ops::OperandSpec& operand : problem.operands) views.push_back(ops::dense_view(operand, nullptr));
    record::PlanFacts facts = ops::plan_facts(problem, views);
    facts.values["sm_count"] = 132;
    return kernel.resolve(0, facts).value();
  };
  const record::ResolvedPlan plan = plan_of("tokens=8192 vocabulary=128256 cols=4096");
  ASSERT_EQ(plan.kernels.size(), 4u);
  EXPECT_EQ(plan.kernels[0].grid[0], 32u);
  EXPECT_EQ(plan.kernels[1].grid[0], 501u);
  EXPECT_EQ(plan.kernels[3].grid[0], 198u) << "three blocks of a multiprocessor, two for each row";
  EXPECT_EQ(plan.kernels[3].grid[1], 2u);
  EXPECT_EQ(plan.kernels[3].parameters.at(0).bytes, 96u) << "EmbeddingBackwardParameters";
  std::uint64_t bytes = 0;
  for (const record::ResolvedWorkspace& one : plan.workspaces) bytes += one.bytes;
  EXPECT_EQ(bytes, 4u * (2 * 128256 + 1 + 2 * 8192));
  EXPECT_TRUE(plan.workspaces.at(0).zero);
  const record::ResolvedPlan nothing = plan_of("tokens=0 vocabulary=40 cols=64");
  ASSERT_EQ(nothing.kernels.size(), 4u) << "rows are 0 all the same";
  EXPECT_EQ(nothing.kernels[3].grid[0], 40u);
}

}  // namespace
}  // namespace ridge::testing
