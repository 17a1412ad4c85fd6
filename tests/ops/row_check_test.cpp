// Each mutant must be caught by the check that is meant for it, and honest kernels by none, over many seeds.
#include "ops/row_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <numeric>

#include "numerics/convert.h"
#include "numerics/fill.h"
#include "numerics/format.h"
#include "numerics/philox.h"
#include "ops/operand_memory.h"
#include "ops/row_models.cuh"

namespace ridge::ops {
namespace {

using ::testing::HasSubstr;

constexpr float kEps = 1e-6F;

// A root-mean-square norm, y = x / sqrt(mean(x^2) + eps) * weight, with the statistic saved, as an operator would
// declare it.
Problem norm_problem(std::int64_t rows, std::int64_t columns, DType dtype) {
  Problem problem;
  problem.problem_case.op = "norm";
  problem.operands = {{"x", dtype, {rows, columns}, false, false},
                      {"weight", dtype, {columns}, false, false},
                      {"y", dtype, {rows, columns}, true, false},
                      {"rstd", DType::kF32, {rows}, true, false}};
  return problem;
}

auto norm_model() {
  return rows::model({rows::kRow, rows::kShared, rows::kRow, rows::kScalar}, row_models::Norm{kEps});
}

// With the inputs filled.
struct Data : testing::OperandMemory {
  explicit Data(const Problem& problem, std::uint64_t seed, numerics::Family family) : OperandMemory(problem) {
    for (std::size_t i = 0; i < views.size(); ++i) {
      if (!problem.operands[i].output) numerics::fill(views[i], family, seed + i);
    }
  }
};

float at(const TensorView& view, std::int64_t index) { return static_cast<float>(numerics::load_element(view, index)); }

struct Kernel {
  float eps = kEps;
  std::int64_t skip_column = -1;  // left out of the statistic
  bool bf16_sum = false, other_row = false, blocked = false, no_weight = false;
};

void run_norm(const Problem& problem, const std::vector<TensorView>& views, const Kernel& kernel) {
  const std::int64_t rows = problem.operands[0].shape[0], columns = problem.operands[0].shape[1];
  std::vector<float> rstd(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) {
    float parts[8] = {};
    for (std::int64_t j = 0; j < columns; ++j) {
      const float x = at(views[0], i * columns + j);
      if (j == kernel.skip_column) continue;
      float& sum = parts[kernel.blocked ? j % 8 : 0];
      sum += x * x;
      if (kernel.bf16_sum) sum = static_cast<float>(numerics::round_to(DType::kBf16, static_cast<double>(sum)));
    }
    const float total = std::accumulate(std::begin(parts), std::end(parts), 0.0F);
    rstd[static_cast<std::size_t>(i)] = 1.0F / std::sqrt(total / static_cast<float>(columns) + kernel.eps);
    numerics::store_element(views[3], i, static_cast<double>(rstd[static_cast<std::size_t>(i)]));
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t from = kernel.other_row && i == rows / 2 ? (i + 1) % rows : i;
    for (std::int64_t j = 0; j < columns; ++j) {
      const float weight = kernel.no_weight && j == columns - 1 ? 1.0F : at(views[1], j);
      const float y = at(views[0], from * columns + j) * rstd[static_cast<std::size_t>(from)] * weight;
      numerics::store_element(views[2], i * columns + j, static_cast<double>(y));
    }
  }
}

// The larger of what the check after a launch finds and what the full compare finds, in units of what is allowed.
struct Found {
  double quick = 0, full = 0;
  std::string detail;
};

Found look(const Problem& problem, const std::vector<TensorView>& views) {
  Found found;
  const auto quick = rows::check(problem, views, norm_model(), 1);
  EXPECT_TRUE(quick);
  found.quick = quick->residual;
  found.detail = quick->detail;
  const auto references = rows::reference_of(problem, views, norm_model());
  EXPECT_TRUE(references);
  for (std::size_t o = 0; o < references->size(); ++o) {
    const ReferenceOutput& reference = (*references)[o];
    const std::vector<double> values = numerics::to_doubles(views[o + 2]);
    double squares = 0;
    for (std::size_t e = 0; e < values.size(); ++e) {
      const double error = std::fabs(values[e] - reference.value[e]);
      found.full = std::max(found.full, error == 0 ? 0 : error / reference.allowed[e]);
      squares += error == 0 ? 0 : error * error / reference.ideal_square[e];
    }
    const auto count = static_cast<double>(values.size());
    found.full = std::max(found.full, std::sqrt(squares / count) / numerics::rms_limit(std::ssize(values)));
  }
  return found;
}

class RowCheck : public ::testing::TestWithParam<DType> {};

TEST_P(RowCheck, HonestKernelsPassOnEveryFamily) {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{5, 1}, {3, 7}, {9, 1000}, {4, 4096}}) {
    const Problem problem = norm_problem(rows, columns, GetParam());
    std::uint64_t seed = 1;
    for (const numerics::Family family : numerics::kAllFamilies) {
      for (int draw = 0; draw < 6; ++draw) {
        const bool blocked = draw % 2 == 0;
        Data data(problem, seed += 10, family);
        Kernel kernel;
        kernel.blocked = blocked;
        run_norm(problem, data.views, kernel);
        const auto quick = rows::check(problem, data.views, norm_model(), 1);
        if (!quick->finite) continue;  // an overflow: the full compare is asked
        const Found found = look(problem, data.views);
        EXPECT_LE(found.quick, 1) << rows << "x" << columns << " " << numerics::to_string(family) << ": "
                                  << found.detail;
        EXPECT_LE(found.full, 1) << rows << "x" << columns << " " << numerics::to_string(family);
      }
    }
  }
}

TEST_P(RowCheck, MutantsAreCaughtByTheQuickCheckAndByTheFullOne) {
  const std::pair<const char*, Kernel> mutants[] = {{"wrong eps", {.eps = 1e-5F}},
                                                    {"wrong row", {.other_row = true}},
                                                    {"dropped column", {.skip_column = 17}},
                                                    {"bf16 accumulation", {.bf16_sum = true}},
                                                    {"a weight left out", {.no_weight = true}}};
  const Problem problem = norm_problem(64, 1000, GetParam());
  for (const auto& [name, kernel] : mutants) {
    Data data(problem, 7, numerics::Family::kNormal);
    run_norm(problem, data.views, kernel);
    const Found found = look(problem, data.views);
    EXPECT_GT(found.quick, 1) << name;
    EXPECT_GT(found.full, 1) << name;
    EXPECT_THAT(found.detail, HasSubstr("norm")) << name;
  }
}

TEST_P(RowCheck, APaddedViewIsReadByItsStrides) {
  const Problem problem = norm_problem(6, 40, GetParam());
  Data dense(problem, 3, numerics::Family::kNormal),
      wide(norm_problem(6, 48, GetParam()), 3, numerics::Family::kNormal);
  run_norm(problem, dense.views, {});
  std::vector<TensorView> views = dense.views;
  for (const std::size_t operand : {0U, 2U}) {
    views[operand].data = wide.views[operand].data;
    views[operand].stride[0] = 48;
    for (std::int64_t e = 0; e < 6 * 40; ++e) {
      numerics::store_element(views[operand], e, numerics::load_element(dense.views[operand], e));
    }
  }
  EXPECT_LE(look(problem, views).quick, 1);
  numerics::store_element(views[2], 45, 100.0);
  const Found found = look(problem, views);
  EXPECT_GT(found.quick, 1);
  EXPECT_THAT(found.detail, HasSubstr("row 1 column 5 of y"));
}

// Rows and columns that no kernel can know beforehand: a wrong element is seen as often as it is drawn.
TEST_P(RowCheck, SecretSamplesFindAWrongRowInTheEnd) {
  const Problem problem = norm_problem(40, 100, GetParam());
  Data data(problem, 5, numerics::Family::kNormal);
  run_norm(problem, data.views, {.other_row = true});
  int seen = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const rows::Sample sample = rows::secret_sample(40, 100, 10, 20, seed);
    ASSERT_EQ(sample.rows.size(), 10U);
    ASSERT_EQ(sample.columns.size(), 20U);
    seen += rows::check(problem, data.views, norm_model(), seed, sample)->residual > 1 ? 1 : 0;
  }
  EXPECT_GT(seen, 25);  // a quarter of the draws hold the row
  EXPECT_LT(seen, 80);
}

INSTANTIATE_TEST_SUITE_P(DTypes, RowCheck, ::testing::Values(DType::kF32, DType::kBf16, DType::kF16),
                         [](const auto& one) { return std::string(to_string(one.param)); });

// Both gradients of the norm: rows of dx, and dweight[j] = sum over rows of dy x rstd.
class NormBackward : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 300, kColumns = 64;
  static Problem problem_of() {
    Problem problem;
    problem.problem_case.op = "norm_backward";
    problem.operands = {
        {"dy", DType::kF32, {kRows, kColumns}, false, false}, {"x", DType::kF32, {kRows, kColumns}, false, false},
        {"weight", DType::kF32, {kColumns}, false, false},    {"rstd", DType::kF32, {kRows}, false, false},
        {"dx", DType::kF32, {kRows, kColumns}, true, false},  {"dweight", DType::kF32, {kColumns}, true, false}};
    return problem;
  }
  NormBackward() { run(-1, DType::kF32); }

  void run(std::int64_t dropped, DType accumulate) {
    std::vector<float> sums(kColumns);
    for (std::int64_t i = 0; i < kRows; ++i) {
      const float rstd = at(data_.views[3], i);
      float mean = 0;
      for (std::int64_t j = 0; j < kColumns; ++j) mean += dy(i, j) * at(data_.views[2], j) * x(i, j);
      mean = mean / static_cast<float>(kColumns) * rstd * rstd;
      for (std::int64_t j = 0; j < kColumns; ++j) {
        const float dx = (dy(i, j) * at(data_.views[2], j) - mean * x(i, j)) * rstd;
        numerics::store_element(data_.views[4], i * kColumns + j, static_cast<double>(dx));
        if (i == dropped) continue;
        float& sum = sums[static_cast<std::size_t>(j)];
        sum += dy(i, j) * x(i, j) * rstd;
        sum = static_cast<float>(numerics::round_to(accumulate, static_cast<double>(sum)));
      }
    }
    for (std::int64_t j = 0; j < kColumns; ++j) {
      numerics::store_element(data_.views[5], j, static_cast<double>(sums[static_cast<std::size_t>(j)]));
    }
  }
  [[nodiscard]] SpotCheck look() const { return *rows::check(problem_, data_.views, model(), 1); }
  static rows::Model<row_models::NormBackward> model() {
    return rows::model({rows::kRow, rows::kRow, rows::kShared, rows::kScalar, rows::kRow, rows::kSum},
                       row_models::NormBackward{1});
  }

  const Problem problem_ = problem_of();
  const Data data_{problem_, 9, numerics::Family::kNormal};

 private:
  [[nodiscard]] float dy(std::int64_t i, std::int64_t j) const { return at(data_.views[0], i * kColumns + j); }
  [[nodiscard]] float x(std::int64_t i, std::int64_t j) const { return at(data_.views[1], i * kColumns + j); }
};

TEST_F(NormBackward, HonestGradientsPassBothChecks) {
  EXPECT_LE(look().residual, 1) << look().detail;
  const auto references = rows::reference_of(problem_, data_.views, model());
  ASSERT_EQ(references->size(), 2U);
  for (std::size_t o = 0; o < 2; ++o) {
    const std::vector<double> values = numerics::to_doubles(data_.views[4 + o]);
    const ReferenceOutput& reference = (*references)[o];
    ASSERT_EQ(reference.value.size(), values.size());
    for (std::size_t e = 0; e < values.size(); ++e) {
      EXPECT_LE(std::fabs(values[e] - reference.value[e]), reference.allowed[e]);
    }
  }
}

TEST_F(NormBackward, ADroppedRowAndAShorterTypeOfASumAreSeen) {
  run(kRows - 1, DType::kF32);
  EXPECT_GT(look().residual, 1);
  EXPECT_THAT(look().detail, HasSubstr("dweight"));
  run(-1, DType::kBf16);
  EXPECT_GT(look().residual, 1);
}

TEST_F(NormBackward, ASumIsOverAllRowsWhateverTheSampleOfTheOthers) {
  rows::Sample sample = rows::secret_sample(kRows, kColumns, 4, kColumns, 3);
  EXPECT_LE(rows::check(problem_, data_.views, model(), 1, sample)->residual, 1);
  run(kRows - 1, DType::kF32);
  EXPECT_GT(rows::check(problem_, data_.views, model(), 1, sample)->residual, 1);
}

// y += alpha x: an output whose old content counts, in pieces of rows that are longer than a piece.
TEST(Elementwise, OldContentIsReadAndOneColumnThatWasLeftAloneIsSeen) {
  Problem problem;
  problem.problem_case.op = "axpy";
  problem.operands = {{"x", DType::kF32, {3001}, false, false}, {"y", DType::kF32, {3001}, true, true}};
  const auto model = rows::model({rows::kRow, rows::kRow}, row_models::Axpy{3});
  Data data(problem, 2, numerics::Family::kNormal), old(problem, 4, numerics::Family::kNormal);
  numerics::fill(old.views[1], numerics::Family::kNormal, 77);
  for (std::int64_t e = 0; e < 3001; ++e) {
    numerics::store_element(data.views[1], e, static_cast<double>(3.0F * at(data.views[0], e) + at(old.views[1], e)));
  }
  std::vector<TensorView> views = data.views;
  views.push_back(old.views[1]);
  EXPECT_LE(rows::check(problem, views, model, 5)->residual, 1);
  numerics::store_element(views[1], 2999, static_cast<double>(at(old.views[1], 2999)));
  const auto found = rows::check(problem, views, model, 5);
  EXPECT_GT(found->residual, 1);
  EXPECT_THAT(found->detail, HasSubstr("column 2999 of y"));
}

// row_numbers.cuh is also for a GPU and so cannot ask src/numerics.
TEST(RowNumbers, RoundAndBoundSumsAsTheRestOfTheLibraryDoes) {
  std::uint64_t draw = 0;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBf16, DType::kE4m3fn, DType::kE5m2}) {
    SCOPED_TRACE(to_string(dtype));
    const rows::Format format = rows::format_of(dtype);
    for (int i = 0; i < 20000; ++i) {
      const double unit = static_cast<double>(numerics::derive_seed(1, draw++) >> 11) * 0x1p-52 - 1;
      const double x = std::ldexp(unit, static_cast<int>(numerics::derive_seed(2, draw) % 60) - 40);
      const double nearest = dtype == DType::kF64 ? x : numerics::round_to(dtype, x), found = format.round(x);
      EXPECT_TRUE(found == nearest || (std::isnan(found) && std::isnan(nearest))) << x;
      if (std::fabs(x) > format.most) continue;
      EXPECT_EQ(format.step(std::fabs(x)), numerics::ulp(dtype, x)) << x;
      const numerics::RoundedOnce right = numerics::rounded_once(dtype, format.round(x), 0);
      const rows::Stored one = rows::known(format, format.round(x));
      EXPECT_TRUE(one.value == right.value && one.allowed == right.allowed && one.ideal_square == right.ideal_square);
    }
  }
  for (const std::int64_t length : {1, 7, 4096, 1 << 20}) {
    const rows::Number sum = rows::total(static_cast<double>(length), {3, 5, 11, 0, 0});
    EXPECT_DOUBLE_EQ(sum.error, numerics::accumulation_bound({DType::kF32, DType::kF32, length}, 5));
  }
}

TEST(Integers, OneThatIsOffIsNamed) {
  const std::vector<std::int64_t> right = {0, 3, 3, 9};
  EXPECT_EQ(rows::check_integers("offsets", right, right).residual, 0);
  std::vector<std::int64_t> wrong = right;
  ++wrong[2];
  const SpotCheck found = rows::check_integers("offsets", wrong, right);
  EXPECT_GT(found.residual, found.allowed);
  EXPECT_EQ(found.detail, "offsets[2] is 4, not 3");
  wrong.pop_back();
  EXPECT_GT(rows::check_integers("offsets", wrong, right).residual, found.allowed);
}

class MovedRows : public ::testing::Test {
 protected:
  static Problem problem() {
    Problem problem;
    problem.operands = {{"tokens", DType::kBf16, {20, 37}, false, false},
                        {"moved", DType::kBf16, {12, 37}, true, false}};
    return problem;
  }
  void move(std::span<const std::int64_t> source) const {
    for (std::size_t i = 0; i < source.size(); ++i) {
      unsigned char* const to = row(1, static_cast<std::int64_t>(i));
      if (source[i] < 0)
        std::fill(to, to + kBytes, 0);
      else
        std::copy(row(0, source[i]), row(0, source[i]) + kBytes, to);
    }
  }
  [[nodiscard]] unsigned char* row(std::size_t operand, std::int64_t index) const {
    return static_cast<unsigned char*>(data_.views[operand].data) + index * kBytes;
  }
  [[nodiscard]] SpotCheck look(std::uint64_t seed = 1) const {
    return rows::check_moved_rows("moved", data_.views[1], data_.views[0], source_, seed);
  }
  static constexpr std::int64_t kBytes = 74;
  Data data_{problem(), 3, numerics::Family::kNormal};
  const std::vector<std::int64_t> source_ = {4, 4, 0, 19, 7, -1, 3, 2, 1, 18, -1, 11};
};

TEST_F(MovedRows, TheRightOnesPassUnderEveryKey) {
  move(source_);
  for (std::uint64_t seed = 0; seed < 50; ++seed) EXPECT_EQ(look(seed).residual, 0);
}

TEST_F(MovedRows, PermutedRowsAreSeen) {
  std::vector<std::int64_t> wrong = source_;
  std::swap(wrong[2], wrong[3]);
  move(wrong);
  EXPECT_EQ(look().detail, "row 2 of moved is not row 0 of its source");
  // As a set they are the same rows, so only the check whose order is free lets them pass.
  Data first(problem(), 3, numerics::Family::kNormal);
  const TensorView permuted = data_.views[1];
  std::copy(data_.memory[1].begin(), data_.memory[1].end(), first.memory[1].begin());
  move(source_);
  EXPECT_EQ(rows::check_same_rows("moved", permuted, first.views[1], 8).residual, 0);
  row(1, 11)[73] ^= 1;
  EXPECT_GT(rows::check_same_rows("moved", permuted, first.views[1], 8).residual, 0.5);
}

TEST_F(MovedRows, OneBitARowTwiceAndAPaddingRowThatIsNotZeroAreSeen) {
  move(source_);
  row(1, 9)[50] ^= 4;
  EXPECT_EQ(look().detail, "row 9 of moved is not row 18 of its source");
  row(1, 9)[50] ^= 4;
  row(1, 5)[0] = 1;
  EXPECT_EQ(look().detail, "row 5 of moved is not zero");
  row(1, 5)[0] = 0;
  EXPECT_EQ(look().residual, 0);
  std::copy(row(1, 0), row(1, 0) + kBytes, row(1, 6));
  EXPECT_EQ(look().detail, "row 6 of moved is not row 3 of its source");
}

}  // namespace
}  // namespace ridge::ops
