// The kernels that check row models on a GPU, run on the host: their verdicts are those of the host's check, on right
// outputs and on every mutant.
#include <gtest/gtest.h>

#include <map>

#include "ops/code_check_kernels.h"
#include "ops/cuda_on_host.h"
#include "ops/harness.h"
#include "ops/row_cases.h"
#include "ridge/stream.h"

namespace ridge::check_numbers {  // what check_numbers.cuh converts with on a GPU
inline float half_to_float(unsigned short bits) { return static_cast<float>(numerics::decode(DType::kF16, bits)); }
inline float from_e4m3(unsigned char code) { return static_cast<float>(numerics::decode(DType::kE4m3fn, code)); }
}  // namespace ridge::check_numbers

// clang-format off
#include "ops/check_numbers.cuh"
#include "ops/row_operands.cuh"
#include "ops/row_check.cu"
#include "ops/rmsnorm/row_model.cuh"
#include "ops/adamw/row_model.cuh"
#include "ops/gating/definition.cuh"
#include "ops/grouped_quantize/row_model.cuh"
#include "ops/grouped_quantize/factor_model.cuh"
// clang-format on

namespace ridge::testing {
namespace {

using numerics::Family;
namespace rows = ops::rows;
namespace models = ops::row_models;

template <class Definition>
Kernels kernels_of() {
  return {{"rows_elements", on_host(row_check::elements<Definition>)},
          {"rows_reference", on_host(row_check::reference<Definition>)},
          {"rows_sums", on_host(row_check::sums<Definition>)},
          {"rows_clear", on_host(rows_clear)},
          {"rows_sums_reference", on_host(rows_sums_reference)},
          {"rows_sums_judge", on_host(rows_sums_judge)},
          {"rows_conclude", on_host(rows_conclude)}};
}
template <class Definition>
void launch(const std::vector<ops::CheckLaunch>& launches) {
  static const Kernels kernels = kernels_of<Definition>();
  for (const ops::CheckLaunch& one : launches) kernels.at(one.kernel)(one);
}

// The source does not matter here.
template <class Definition>
std::shared_ptr<const ops::DeviceCheck> check_of(const RowCase<Definition>& one) {
  return one.device_check("ops/row_numbers.cuh", "none");
}

template <class Definition>
bool right_on_kernels(const RowCase<Definition>& one, std::uint64_t seed = 99) {
  const auto check = check_of(one);
  std::vector<double> scratch(check->scratch_bytes(one.problem()) / sizeof(double) + 1);
  ops::ProjectionResult seen;
  launch<Definition>(check->projection({one.problem(), one.views(), seed, scratch.data(), &seen}));
  return right_by(seen);
}

template <class Definition>
void expect_same_reference(const RowCase<Definition>& one) {
  const auto references = one.reference();
  const std::vector<ops::OperandSpec>& operands = one.problem().operands;
  std::size_t next = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].output) continue;
    const ops::ReferenceOutput& want = references[next++];
    const std::size_t count = want.value.size();
    std::vector<double> value(count), allowed(count), variance(count), shift(count);
    launch<Definition>(
        check_of(one)->reference({one.problem(), one.views(), i, 0, ops::device_matrix(one.views()[i]).rows,
                                  value.data(), allowed.data(), variance.data(), shift.data()}));
    for (std::size_t e = 0; e < count; ++e) {  // the order of sums differs
      EXPECT_NEAR(value[e], want.value[e], 1e-3 * want.allowed[e]) << operands[i].name << "[" << e << "]";
      EXPECT_NEAR(allowed[e], want.allowed[e], 1e-6 * want.allowed[e]) << operands[i].name;
      EXPECT_NEAR(variance[e], want.ideal_square[e], 1e-6 * want.ideal_square[e]) << operands[i].name;
      EXPECT_NEAR(shift[e], want.shift[e], 1e-6 * want.allowed[e]) << operands[i].name;
    }
  }
}

class RowCheckKernels : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!kFibersRun) GTEST_SKIP() << "not under a sanitizer";
  }
};

TEST_P(RowCheckKernels, AgreeWithTheHostOnRightOutputs) {
  // A warp for a row; a block for one; rows shorter than a warp.
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{20, 700}, {3, 2500}, {70, 5}}) {
    auto one = norm_case(rows, columns, GetParam());
    for (const Family family : {Family::kNormal, Family::kSpikes, Family::kTies, Family::kMixture}) {
      one.fill(family, 5);
      one.compute();
      EXPECT_TRUE(one.right_on_host()) << rows << "x" << columns;
      EXPECT_TRUE(right_on_kernels(one));
      expect_same_reference(one);
    }
  }
}

TEST_P(RowCheckKernels, AgreeWithTheHostOnEveryMutant) {
  auto one = norm_case(24, 600, GetParam()), other = norm_case(24, 600, GetParam());
  one.fill(Family::kNormal, 7);
  other.fill(Family::kNormal, 70);
  other.compute();
  for (const auto& [name, mutate] : norm_mutants(one, other)) {
    one.compute();
    EXPECT_TRUE(right_on_kernels(one)) << "before " << name;
    mutate();
    EXPECT_FALSE(one.right_on_host()) << name;
    for (const std::uint64_t seed : {1, 2, 3}) EXPECT_FALSE(right_on_kernels(one, seed)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, RowCheckKernels, ::testing::Values(DType::kF32, DType::kBf16, DType::kF16),
                         [](const auto& one) { return std::string(to_string(one.param)); });

class MoreRowCheckKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kFibersRun) GTEST_SKIP() << "not under a sanitizer";
  }
};

TEST_F(MoreRowCheckKernels, SumColumnsAsTheHostDoes) {
  auto one = norm_backward_case(75, 300);  // strips of 32 rows
  one.fill(Family::kNormal, 3);
  one.compute();
  EXPECT_TRUE(one.right_on_host());
  EXPECT_TRUE(right_on_kernels(one));
  expect_same_reference(one);
  drop_a_term(one);
  EXPECT_FALSE(one.right_on_host());
  EXPECT_FALSE(right_on_kernels(one));
}

TEST_F(MoreRowCheckKernels, FindTheLargestOfARow) {
  for (const std::int64_t columns : {100, 3000}) {
    ops::Problem problem;
    problem.problem_case.op = "softmax";
    problem.operands = {{"x", DType::kF32, {6, columns}, false, false}, {"y", DType::kBf16, {6, columns}, true, false}};
    RowCase<models::Softmax> one(problem, rows::model({rows::kRow, rows::kRow}, models::Softmax{0.125}));
    one.fill(Family::kNormal, 3);
    one.compute();
    EXPECT_TRUE(one.right_on_host());
    EXPECT_TRUE(right_on_kernels(one));
    expect_same_reference(one);
    one.set(1, 50, 1.02 * one.value(1, 50));
    EXPECT_FALSE(one.right_on_host());
    EXPECT_FALSE(right_on_kernels(one));
  }
}

// A long vector is worked on in pieces, and the old content of an output counts.
TEST_F(MoreRowCheckKernels, ReadOldContentInPieces) {
  ops::Problem problem;
  problem.problem_case.op = "axpy";
  problem.operands = {{"x", DType::kF32, {3001}, false, false},
                      {"old", DType::kF32, {3001}, false, false},
                      {"y", DType::kF32, {3001}, true, false}};
  RowCase<models::Axpy> one(problem, rows::model({rows::kRow, rows::kRow, rows::kRow}, models::Axpy{3}));
  one.fill(Family::kNormal, 3);
  one.compute();
  EXPECT_TRUE(one.right_on_host());
  EXPECT_TRUE(right_on_kernels(one));
  expect_same_reference(one);
  one.set(2, 2999, one.value(1, 2999));
  EXPECT_FALSE(one.right_on_host());
  EXPECT_FALSE(right_on_kernels(one));
}

TEST_F(MoreRowCheckKernels, SeeAWrongRowABitAndARowTwice) {
  constexpr std::int64_t kColumns = 37, kBytes = 2 * kColumns;
  std::vector<unsigned char> from(20 * kBytes), to(6 * kBytes);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 31 % 251);
  const std::vector<std::int64_t> source = {4, 4, -1, 19, 7, 0};
  const auto view = [](void* data, DType dtype, std::vector<std::int64_t> shape) {
    TensorView made;
    made.data = data;
    made.dtype = dtype;
    made.rank = static_cast<int>(shape.size());
    std::int64_t stride = 1;
    for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
      made.shape[d] = shape[d];
      made.stride[d] = stride;
    }
    return made;
  };
  const auto move = [&](const std::vector<std::int64_t>& rows) {
    std::fill(to.begin(), to.end(), 0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] >= 0)
        std::copy_n(from.begin() + rows[i] * kBytes, kBytes,
                    to.begin() + std::ssize(to) / 6 * static_cast<std::int64_t>(i));
    }
  };
  const auto wrong = [&] {
    ops::ProjectionResult result;
    const TensorView sources = view(const_cast<std::int64_t*>(source.data()), DType::kI64, {6});
    for (const auto& one : rows::moved_rows(view(to.data(), DType::kBf16, {6, kColumns}),
                                            view(from.data(), DType::kBf16, {20, kColumns}), sources, &result)) {
      on_host(rows_moved)(one);
    }
    return result.worst != 0;
  };
  const auto lost = [&](std::vector<unsigned char>& other) {
    ops::ProjectionResult result;
    std::uint64_t difference = 0;
    const std::map<std::string, std::function<void(const ops::CheckLaunch&)>> kernels = {
        {"rows_kept", on_host(rows_kept)}, {"rows_kept_judge", on_host(rows_kept_judge)}};
    for (const auto& one : rows::same_rows(view(to.data(), DType::kBf16, {6, kColumns}),
                                           view(other.data(), DType::kBf16, {6, kColumns}), 8, &difference, &result)) {
      kernels.at(one.kernel)(one);
    }
    return result.worst != 0;
  };
  move(source);
  EXPECT_FALSE(wrong());
  std::vector<unsigned char> kept = to;
  EXPECT_FALSE(lost(kept));
  move({4, 4, -1, 7, 19, 0});
  EXPECT_TRUE(wrong());
  EXPECT_FALSE(lost(kept));  // in another order
  move({4, 19, -1, 19, 7, 0});
  EXPECT_TRUE(lost(kept));
  move(source);
  to[3 * kBytes + 50] ^= 4;
  EXPECT_TRUE(wrong());
  EXPECT_TRUE(lost(kept));
  move(source);
  to[2 * kBytes] = 1;  // of a row that must be zero
  EXPECT_TRUE(wrong());
}

// By the operator, kernels of the row model of what stands in front of its codes.
Kernels kernels_in_front_of_codes(const std::string& op) {
  if (op == "adamw_quantize") return kernels_of<ops::adamw::RowModel>();
  if (op == "grouped_quantize") return kernels_of<ops::grouped_quantize::FactorModel>();
  return kernels_of<ops::rmsnorm::RowModel>();
}

// Codes behind outputs that a row model has of its own (the sum and the factors of a norm, what a step changes, the
// gradient of factors): those by that model, codes and scales by what was written.
class OutputsAndCodes : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!kFibersRun) GTEST_SKIP() << "not under a sanitizer";
    problem_ = *op_.bind(*record::parse_case(GetParam()));
    kernels_ = kernels_in_front_of_codes(op_.name);
    kernels_.merge(code_check_kernels(op_.name));
    operands_ = make_operands(problem_, kPacked, 7), before_ = make_operands(problem_, kPacked, 7);
    const ops::Implementation& panels = **ops::find_implementation(op_, "cpu_panels");
    ASSERT_TRUE(panels.run(problem_, {operands_.views(), operands_.scalars}, Stream::cpu()).ok());
  }
  void launch_all(const std::vector<ops::CheckLaunch>& launches) {
    for (const ops::CheckLaunch& one : launches) kernels_.at(one.kernel)(one);
  }
  bool right() {
    std::vector<double> scratch(op_.device_check->scratch_bytes(problem_) / sizeof(double) + 1);
    ops::ProjectionResult seen;
    const std::vector<TensorView> views = operands_.views_with_old(before_);
    launch_all(op_.device_check->projection({problem_, views, 99, scratch.data(), &seen, operands_.scalars}));
    return right_by(seen);
  }

  const ops::Operator& op_ = **ops::find_operator(record::parse_case(GetParam())->op);
  ops::Problem problem_;
  Operands operands_, before_;
  Kernels kernels_;
};

TEST_P(OutputsAndCodes, RightOutputsPassAndWrongOnesAreSeen) {
  EXPECT_TRUE(right());
  const std::vector<TensorView> views = operands_.views_with_old(before_);
  for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
    if (!problem_.operands[i].output) continue;
    const std::string& name = problem_.operands[i].name;
    const std::vector<double> found = operands_.all[i].values();
    std::vector<double> value(found.size()), allowed(value), variance(value), shift(value);
    launch_all(op_.device_check->reference({problem_, views, i, 0, ops::device_matrix(views[i]).rows, value.data(),
                                            allowed.data(), variance.data(), shift.data(), operands_.scalars}));
    for (std::size_t e = 0; e < found.size(); ++e) EXPECT_LE(std::abs(found[e] - value[e]), allowed[e]) << name << e;
    std::vector<double> wrong = found;
    for (double& one : wrong) one = 2 * one + 1;
    operands_.all[i].assign(wrong);
    EXPECT_FALSE(right()) << name;
    operands_.all[i].assign(found);
  }
  EXPECT_TRUE(right());
}

class OutputsAndCodesByScalars : public OutputsAndCodes {};

// An eps that is another, a longer step: codes that follow from what was written are right for that.
TEST_P(OutputsAndCodesByScalars, OtherScalarsAreSeen) {
  for (record::Scalar& scalar : operands_.scalars) {
    scalar = scalar.type == record::ScalarType::kF32 ? record::Scalar::f32(static_cast<float>(scalar.real()) + 1)
                                                     : record::Scalar::f64(scalar.real() / 2);
  }
  EXPECT_FALSE(right());
}

constexpr const char* kByScalars[] = {
    "rmsnorm_quantize rows=37 cols=140 residual=1 copies=both",
    "rmsnorm_quantize rows=20 cols=70 scaling=mx copies=both weight=f32 zero_centred=1 dtype=f32",
    "rmsnorm_quantize rows=130 cols=40 scaling=128x128 copies=column weight=none format=e5m2",
    "rmsnorm_quantize rows=9 cols=200 scaling=row copies=both dtype=f16 residual=1",
    "rmsnorm_quantize rows=20 cols=70 scaling=tensor amax=given copies=both",
    "adamw_quantize rows=37 cols=140 dtype=f32 copies=both",
    "adamw_quantize rows=130 cols=40 scaling=1x128 copies=both state=bf16",
    "adamw_quantize rows=20 cols=70 scaling=mx copies=both master=1 factor=1",
    "adamw_quantize rows=9 cols=200 scaling=row copies=column dtype=f16 skip=1",
    "adamw_quantize rows=20 cols=70 scaling=tensor amax=given copies=both"};
INSTANTIATE_TEST_SUITE_P(ByScalars, OutputsAndCodes, ::testing::ValuesIn(kByScalars));
INSTANTIATE_TEST_SUITE_P(ByScalars, OutputsAndCodesByScalars, ::testing::ValuesIn(kByScalars));
INSTANTIATE_TEST_SUITE_P(
    Cases, OutputsAndCodes,
    ::testing::Values("grouped_quantize rows=70 cols=140 groups=3 copies=both own_rows=1 of=swiglu_backward probs=1 "
                      "dprobs=1",
                      "grouped_quantize rows=40 cols=30 groups=2 scaling=row copies=column of=swiglu_backward probs=1 "
                      "dprobs=1 dtype=f32 offsets=i64"));

}  // namespace
}  // namespace ridge::testing
