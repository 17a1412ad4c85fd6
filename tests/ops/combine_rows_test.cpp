// What is particular to combine_rows and its backward: rows without sources, sources that are no row, copies bit by
// bit, rows shared out to threads, checks that a wrong source cannot pass, and launch plans that fit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "dispatch/launch.h"
#include "ops/arguments.h"
#include "ops/described_kernel.h"
#include "ops/harness.h"
#include "record/case.h"
#include "ridge/ops/combine_rows.h"
#include "ridge/ops/combine_rows_backward.h"

namespace ridge::testing {
namespace {

const ops::Operator& the_operator(const char* name = "combine_rows") { return **ops::find_operator(name); }
ops::Problem bound(const std::string& words) {
  const record::Case one = *record::parse_case(words);
  return *the_operator(one.op.c_str()).bind(one);
}

// A call in f32 with memory of its own.
struct Batch {
  std::int64_t rows, sources, cols, top;
  std::vector<float> x, weights, y, dy, dweights;
  std::vector<std::int32_t> from;

  Batch(std::int64_t count, std::int64_t others, std::int64_t columns, std::int64_t most)
      : rows(count), sources(others), cols(columns), top(most) {
    std::mt19937 generator(3);
    std::normal_distribution<float> normal(0, 1);
    for (std::int64_t i = 0; i < others * columns; ++i) x.push_back(normal(generator));
    for (std::int64_t i = 0; i < count * columns; ++i) dy.push_back(normal(generator));
    for (std::int64_t i = 0; i < count * most; ++i) {
      weights.push_back(normal(generator));
      from.push_back(static_cast<std::int32_t>(generator() % static_cast<unsigned>(others + 1)) - 1);
    }
    y.assign(static_cast<std::size_t>(count * columns), std::nanf(""));
    dweights.assign(static_cast<std::size_t>(count * most), std::nanf(""));
  }
  CombineRowsArgs args() {
    CombineRowsArgs call;
    call.x = TensorView::contiguous(x.data(), DType::kF32, {sources, cols});
    call.from = TensorView::contiguous(from.data(), DType::kI32, {rows, top});
    call.weights = TensorView::contiguous(weights.data(), DType::kF32, {rows, top});
    call.y = TensorView::contiguous(y.data(), DType::kF32, {rows, cols});
    return call;
  }
  CombineRowsBackwardArgs backward() {
    const CombineRowsArgs call = args();
    return {call.x, call.from, TensorView::contiguous(dy.data(), DType::kF32, {rows, cols}),
            TensorView::contiguous(dweights.data(), DType::kF32, {rows, top})};
  }
  [[nodiscard]] double sum(std::int64_t row, std::int64_t column) const {
    double total = 0;
    for (std::int64_t k = 0; k < top; ++k) {
      const auto place = static_cast<std::size_t>(row * top + k);
      if (from[place] >= 0) total += static_cast<double>(weights[place]) * at(x, from[place], column);
    }
    return total;
  }
  [[nodiscard]] double product(std::int64_t row, std::int64_t k) const {
    const std::int32_t source = from[static_cast<std::size_t>(row * top + k)];
    double total = 0;
    for (std::int64_t j = 0; source >= 0 && j < cols; ++j)
      total += static_cast<double>(at(dy, row, j)) * at(x, source, j);
    return total;
  }
  [[nodiscard]] float at(const std::vector<float>& matrix, std::int64_t row, std::int64_t column) const {
    return matrix[static_cast<std::size_t>(row * cols + column)];
  }
};

TEST(CombineRows, SumsAndProductsAreThoseOfEachSource) {
  std::vector<float> first;
  for (const int threads : {1, 2, 5}) {
    Batch batch(70, 40, 1100, 3);
    ASSERT_TRUE(combine_rows(batch.args(), Stream::cpu(threads)).ok());
    ASSERT_TRUE(combine_rows_backward(batch.backward(), Stream::cpu(threads)).ok());
    for (std::int64_t row = 0; row < 70; ++row) {
      for (std::int64_t j = 0; j < 1100; ++j) ASSERT_NEAR(batch.at(batch.y, row, j), batch.sum(row, j), 2e-6);
      for (std::int64_t k = 0; k < 3; ++k) {
        ASSERT_NEAR(batch.dweights[static_cast<std::size_t>(row * 3 + k)], batch.product(row, k), 2e-4);
      }
    }
    if (first.empty()) first = batch.y;
    EXPECT_EQ(first, batch.y) << "another number of threads, other bits";
  }
}

TEST(CombineRows, OneSourceIsCopiedBitByBitAndARowWithoutOneIsZero) {
  Batch batch(9, 5, 6, 1);
  batch.x[0] = std::bit_cast<float>(0x7fc12345u);  // a NaN keeps its payload
  batch.x[1] = -0.0F;
  batch.from = {0, 4, -1, 3, 0, -7, 2, 1, 0};
  CombineRowsArgs args = batch.args();
  args.weights = {};
  ASSERT_TRUE(combine_rows(args, Stream::cpu(2)).ok());
  for (std::int64_t row = 0; row < 9; ++row) {
    const std::int32_t source = batch.from[static_cast<std::size_t>(row)];
    for (std::int64_t j = 0; j < 6; ++j) {
      const float want = source < 0 ? 0.0F : batch.at(batch.x, source, j);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(batch.at(batch.y, row, j)), std::bit_cast<std::uint32_t>(want));
    }
  }
}

TEST(CombineRows, ASourceThatIsNoRowIsAnErrorThatNamesItsPlace) {
  Batch batch(7, 5, 8, 3);
  batch.from[3 * 4 + 2] = 5;
  const Status status = combine_rows(batch.args(), Stream::cpu());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().text(),
            "combine_rows: from[4, 2] is 5; x has 5 rows (give numbers below that, or a negative one for none)");
  EXPECT_TRUE(std::isnan(batch.y[0])) << "written before the sources were looked at";
  EXPECT_FALSE(combine_rows_backward(batch.backward(), Stream::cpu()).ok());
  EXPECT_TRUE(std::isnan(batch.dweights[0]));
}

TEST(CombineRows, RowsThatNothingNamesAreNotRead) {
  Batch batch(20, 10, 40, 2);
  for (std::int32_t& source : batch.from) source = source == 7 ? 3 : source;
  std::fill_n(batch.x.begin() + 7 * 40, 40, std::nanf(""));
  ASSERT_TRUE(combine_rows(batch.args(), Stream::cpu(2)).ok());
  for (const float value : batch.y) ASSERT_FALSE(std::isnan(value));
}

// A wrong source, a weight that is missing, and a number that is off, in either operator.
TEST(CombineRows, TheChecksCatchWhatIsNotTheSum) {
  for (const char* words : {"combine_rows rows=60 sources=30 cols=50 top=3 weights=1 dtype=bf16",
                            "combine_rows rows=60 sources=30 cols=50 top=1 dtype=bf16",
                            "combine_rows_backward rows=60 sources=30 cols=200 top=3 dtype=bf16"}) {
    const ops::Problem problem = bound(words);
    const ops::Operator& op = the_operator(problem.problem_case.op.c_str());
    for (const int change : {0, 1, 2}) {
      Operands operands = make_operands(problem, kPacked, 4);
      const std::vector<double> from = operands.all[1].values();
      std::vector<double> other = from;
      std::size_t at = 0;  // a place that has a source
      while (other[at] < 0) ++at;
      if (change == 1) other[at] = static_cast<double>((static_cast<int>(from[at]) + 1) % 30);
      operands.all[1].assign(other);
      ASSERT_TRUE(op.implementations.back().run(problem, operands.views(), Stream::cpu()).ok());
      operands.all[1].assign(from);
      if (change == 2) {
        auto& result = operands.all.back();
        std::vector<double> values = result.values();
        const std::size_t place = values.size() / 2;
        values[place] += values[place] == 0 ? 0.01 : 0.02 * values[place];
        result.assign(values);
      }
      const auto found = op.spot_check(problem, operands.views(), 5);
      ASSERT_TRUE(found.ok());
      EXPECT_EQ(found->residual <= found->allowed, change == 0) << words << ", change " << change;
    }
  }
}

TEST(CombineRows, SaysWhatIsWrongWithACall) {
  const auto refused = [](const CombineRowsArgs& args) {
    const Status status = combine_rows(args, Stream::cpu());
    return status.ok() ? std::string("no error") : status.error().text();
  };
  Batch batch(4, 8, 6, 2);
  CombineRowsArgs args = batch.args();
  args.from.shape[1] = 0;
  EXPECT_NE(refused(args).find("1 to 64 sources of a row"), std::string::npos) << refused(args);
  args = batch.args();
  args.from.dtype = DType::kF32;
  EXPECT_NE(refused(args).find("these are numbers of rows"), std::string::npos) << refused(args);
  args = batch.args();
  args.weights.shape[1] = 1;
  EXPECT_NE(refused(args).find("of the shape of from"), std::string::npos) << refused(args);
  args = batch.args();
  args.y = args.x;
  EXPECT_NE(refused(args), "no error");
  const auto wrong = the_operator().bind(*record::parse_case("combine_rows top=65"));
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().text().find("top=65 (give 1 to 64)"), std::string::npos) << wrong.error().text();
}

TEST(CombineRowsPlan, RowsAreSharedOutToTeamsAndTheirPieces) {
  const auto plan_of = [&](const std::string& file, const std::string& words) {
    const ops::Problem problem = bound(words);
    std::vector<TensorView> views;
    for (const ops::OperandSpec& operand : problem.operands) views.push_back(ops::dense_view(operand, nullptr));
    record::PlanFacts facts = ops::plan_facts(problem, views);
    facts.values["sm_count"] = 132;
    return ops::described_kernel("ops/combine_rows/" + file).resolve(0, facts).value().kernels.at(0);
  };
  const record::ResolvedKernel many =
      plan_of("cuda_combine_rows.cu", "combine_rows rows=100 cols=7168 top=8 weights=1");
  EXPECT_EQ(many.grid[0], 100u * 4) << "896 chunks, a block for 256 of them";
  EXPECT_EQ(many.parameters.at(0).bytes, 104u) << "CombineParameters";
  const record::ResolvedKernel one = plan_of("cuda_combine_rows.cu", "combine_rows rows=100 cols=7168 top=1");
  EXPECT_EQ(one.grid[0], 100u) << "four chunks a thread";
  const record::ResolvedKernel low = plan_of("cuda_combine_rows.cu", "combine_rows rows=100 cols=64 top=8");
  EXPECT_EQ(low.grid[0], 4u) << "teams of eight threads";
  const record::ResolvedKernel back =
      plan_of("backward/cuda_combine_rows_backward.cu", "combine_rows_backward rows=100 cols=64 top=11");
  EXPECT_EQ(back.grid[0], 50u) << "a warp for eight sources, and one for the three that are left";
  EXPECT_EQ(back.parameters.at(0).bytes, 96u) << "CombineBackwardParameters";
}

}  // namespace
}  // namespace ridge::testing
