// What is particular to gemm: the public contract, every instruction set's kernels, and the power of its checks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "device/cpu/cpu_info.h"
#include "device/cpu/matrix_unit.h"
#include "dispatch/choose.h"
#include "dispatch/launch.h"
#include "numerics/convert.h"
#include "ops/gemm/gemm.h"
#include "ops/harness.h"
#include "ops/matmul/simd/driver.h"
#include "ridge/ops/gemm.h"

namespace ridge::testing {
namespace {

using ::testing::HasSubstr;

ops::Problem problem_of(const std::string& text) {
  const auto problem = (*ops::find_operator("gemm"))->bind(*record::parse_case("gemm " + text));
  EXPECT_TRUE(problem.ok()) << problem.error().text();
  return *problem;
}

GemmArgs square(float* a, float* b, float* c, std::int64_t n) {
  GemmArgs args;
  args.a = TensorView::contiguous(a, DType::kF32, {n, n});
  args.b = TensorView::contiguous(b, DType::kF32, {n, n});
  args.c = TensorView::contiguous(c, DType::kF32, {n, n});
  return args;
}

std::string error_of(const GemmArgs& args) {
  const Status status = gemm(args, Stream::cpu());
  return status ? "" : status.error().text();
}

class GemmContract : public ::testing::Test {
 protected:
  float a_[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, b_[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, c_[9] = {};
  GemmArgs good() { return square(a_, b_, c_, 3); }
};

TEST_F(GemmContract, MultipliesByTheIdentity) {
  ASSERT_EQ(error_of(good()), "");
  EXPECT_THAT(c_, ::testing::ElementsAreArray(a_));
}

TEST_F(GemmContract, NamesTheSizesThatDoNotFit) {
  GemmArgs args = good();
  args.b = TensorView::contiguous(b_, DType::kF32, {2, 3});
  EXPECT_THAT(error_of(args),
              HasSubstr("op(A) has k = 3 columns but op(B) has k = 2 rows (check trans_a and trans_b)"));
  args = good();
  args.c = TensorView::contiguous(c_, DType::kF32, {3, 2});
  EXPECT_THAT(error_of(args), HasSubstr("op(A) op(B) is [3, 3] (make C [3, 3])"));
}

TEST_F(GemmContract, NamesDtypesItCannotMultiply) {
  GemmArgs args = good();
  args.b.dtype = DType::kBf16;
  EXPECT_THAT(error_of(args), HasSubstr("give A and B the same one of f32, bf16, f16"));
  args = good();
  args.a.dtype = args.b.dtype = DType::kE4m3fn;
  EXPECT_THAT(error_of(args), HasSubstr("A e4m3fn [3, 3]"));
  args = good();
  args.c.dtype = DType::kBf16;
  EXPECT_THAT(error_of(args), HasSubstr("C cannot be bf16 (give C the dtype f32 or f32)"));
}

TEST_F(GemmContract, NamesLayoutsItDoesNotTake) {
  GemmArgs args = good();
  args.a.rank = 3;
  EXPECT_THAT(error_of(args), HasSubstr("A has rank 3"));
  args = good();
  args.a.stride = {1, 3};
  EXPECT_THAT(error_of(args),
              HasSubstr("strides [1, 3]; columns must be contiguous and rows at least 3 elements apart"));
  args = good();
  args.c.stride[0] = 2;
  EXPECT_THAT(error_of(args), HasSubstr("C is f32 [3, 3]"));
  args = good();
  args.a.data = nullptr;
  EXPECT_THAT(error_of(args), HasSubstr("data pointer is null"));
  args = good();
  args.a.shape[0] = -1;
  EXPECT_THAT(error_of(args), HasSubstr("must not be negative"));
}

TEST_F(GemmContract, RefusesAnOutputThatOverlapsAnInput) {
  GemmArgs args = good();
  args.c.data = a_;
  EXPECT_THAT(error_of(args), HasSubstr("C overlaps A (give C memory of its own)"));
  args = good();
  args.c.data = b_ + 1;
  EXPECT_THAT(error_of(args), HasSubstr("C overlaps B"));
}

TEST_F(GemmContract, ReadsOneMatrixAsBothInputs) {
  GemmArgs args = good();
  args.b = args.a;
  ASSERT_EQ(error_of(args), "");
  EXPECT_EQ(c_[0], 30);
}

TEST_F(GemmContract, WithoutTermsGivesZerosOrLeavesTheSum) {
  std::fill_n(c_, 9, 5.0f);
  GemmArgs args = good();
  args.a = TensorView::contiguous(nullptr, DType::kF32, {3, 0});
  args.b = TensorView::contiguous(nullptr, DType::kF32, {0, 3});
  args.accumulate = true;
  ASSERT_EQ(error_of(args), "");
  EXPECT_THAT(c_, ::testing::Each(5.0f));
  args.accumulate = false;
  ASSERT_EQ(error_of(args), "");
  EXPECT_THAT(c_, ::testing::Each(0.0f));
}

TEST_F(GemmContract, WithoutRowsOrColumnsDoesNothing) {
  GemmArgs args = good();
  args.a = TensorView::contiguous(nullptr, DType::kF32, {0, 3});
  args.c = TensorView::contiguous(nullptr, DType::kF32, {0, 3});
  EXPECT_EQ(error_of(args), "");
}

TEST_F(GemmContract, AddsBiasActivationAndResidual) {
  float bias[3] = {-20, 0, 20}, residual[9] = {1, 1, 1, 2, 2, 2, 3, 3, 3};
  GemmArgs args = good();
  args.bias = TensorView::contiguous(bias, DType::kF32, {3});
  args.residual = TensorView::contiguous(residual, DType::kF32, {3, 3});
  ASSERT_EQ(error_of(args), "");
  EXPECT_THAT(c_, ::testing::ElementsAre(-18, 3, 24, -14, 7, 28, -10, 11, 32));
  args.activation = Activation::kGelu;
  args.residual = TensorView();
  ASSERT_EQ(error_of(args), "");
  EXPECT_NEAR(c_[0], 0.0f, 1e-5f) << "far below zero";
  EXPECT_EQ(c_[2], 23) << "far above";
  EXPECT_NEAR(c_[1], 2 * 0.9772499f, 1e-5f) << "2 times the normal distribution at 2";
}

TEST_F(GemmContract, NamesWhatIsWrongWithAnEpilogue) {
  float bias[3] = {}, residual[9] = {};
  GemmArgs args = good();
  args.bias = TensorView::contiguous(bias, DType::kF32, {2});
  EXPECT_THAT(error_of(args),
              HasSubstr("bias is f32 [2]; it must be f32 [3] (one for each column of C, in its dtype)"));
  args.bias = TensorView::contiguous(bias, DType::kF32, {3});
  args.accumulate = true;
  EXPECT_THAT(error_of(args), HasSubstr("accumulate adds the product alone"));
  args = good();
  args.residual = TensorView::contiguous(residual, DType::kBf16, {3, 3});
  EXPECT_THAT(error_of(args), HasSubstr("residual is bf16 [3, 3]; it must be f32 [3, 3]"));
  args.residual = args.c;
  EXPECT_THAT(error_of(args), HasSubstr("C overlaps residual (give C memory of its own)"));
}

TEST_F(GemmContract, MultipliesABatchAndNamesBatchesThatDoNotFit) {
  float a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[8] = {1, 0, 0, 1, 2, 0, 0, 2}, c[8] = {};
  GemmArgs args;
  args.a = TensorView::contiguous(a, DType::kF32, {2, 2, 2});
  args.b = TensorView::contiguous(b, DType::kF32, {2, 2, 2});
  args.c = TensorView::contiguous(c, DType::kF32, {2, 2, 2});
  ASSERT_EQ(error_of(args), "");
  EXPECT_THAT(c, ::testing::ElementsAre(1, 2, 3, 4, 10, 12, 14, 16));
  args.b.shape[0] = 1;
  EXPECT_THAT(error_of(args), HasSubstr("batches of 2, 1 and 2 matrices (give A, B and C the same first size)"));
  args.b.shape[0] = 2;
  args.c.rank = 2;
  EXPECT_THAT(error_of(args), HasSubstr("C has rank 2; it must have rank 3"));
  args.c.rank = 3;
  args.a.stride[0] = 3;
  EXPECT_THAT(error_of(args), HasSubstr("A is f32 [2, 2, 2]"));
}

TEST_F(GemmContract, GradientsAddToWhatIsThereWhenAsked) {
  GemmGradArgs grad;
  grad.forward = good();
  grad.grad_c = TensorView::contiguous(a_, DType::kF32, {3, 3});
  grad.grad = TensorView::contiguous(c_, DType::kF32, {3, 3});
  std::fill_n(c_, 9, 100.0f);
  grad.accumulate = true;
  ASSERT_TRUE(gemm_grad_a(grad, Stream::cpu()).ok());  // dC * identity^T
  EXPECT_EQ(c_[5], 106);
  grad.accumulate = false;
  ASSERT_TRUE(gemm_grad_b(grad, Stream::cpu()).ok());  // A^T * A
  EXPECT_EQ(c_[0], 1 + 16 + 49);
}

TEST(GemmCase, HasOneSpelling) {
  EXPECT_EQ(problem_of("m=1 n=2 k=3 dtype=half out=fp16").problem_case.text(),
            "gemm m=1 n=2 k=3 dtype=f16 out=same layout=nn accumulate=0 batch=1 bias=0 activation=none residual=0");
  EXPECT_EQ(problem_of("dtype=f32 out=f32").problem_case.get("out"), "same");
  EXPECT_EQ(problem_of("dtype=bf16 out=float32").problem_case.get("out"), "f32");
}

TEST(GemmCase, NamesValuesThatAreNotPossible) {
  const ops::Operator& op = **ops::find_operator("gemm");
  const auto text = [&](const char* bad) { return op.bind(*record::parse_case(bad)).error().text(); };
  EXPECT_THAT(text("gemm m=-1"), HasSubstr("m=-1 is not a non-negative integer"));
  EXPECT_THAT(text("gemm m=3x"), HasSubstr("m=3x"));
  EXPECT_THAT(text("gemm dtype=f64"), HasSubstr("dtype is one of f32, bf16, f16"));
  EXPECT_THAT(text("gemm layout=xx"), HasSubstr("layout is one of nn, nt, tn, tt"));
  EXPECT_THAT(text("gemm m=4000000000 n=4000000000 k=4000000000"), HasSubstr("4000000000 x 4000000000 elements"));
}

TEST(GemmCost, CountsEveryOperandOnceAndCTwiceWhenItIsAddedTo) {
  const ops::Operator& op = **ops::find_operator("gemm");
  EXPECT_EQ(op.cost(problem_of("m=2 n=3 k=5")).flop, 60);
  EXPECT_EQ(op.cost(problem_of("m=2 n=3 k=5")).bytes, 4 * (10 + 15 + 6));
  EXPECT_EQ(op.cost(problem_of("m=0 n=3 k=5")).bytes, 0);  // nothing is written, and nothing is read for it
  EXPECT_EQ(op.cost(problem_of("m=2 n=3 k=0")).bytes, 4 * 6);
  EXPECT_EQ(op.cost(problem_of("m=2 n=3 k=5 accumulate=1")).bytes, 4 * (10 + 15 + 12));
  EXPECT_EQ(op.cost(problem_of("m=2 n=3 k=5 dtype=bf16 out=f32")).bytes, 2 * (10 + 15) + 4 * 6);
}

// Every instruction set this machine can run, not only the one that dispatch takes.
class KernelSets : public ::testing::TestWithParam<const ops::matmul::simd::KernelSet*> {};

std::vector<const ops::matmul::simd::KernelSet*> runnable_sets() {
  namespace simd = ops::matmul::simd;
  const device::cpu::CpuInfo& cpu = device::cpu::cpu_info();
  std::vector<const simd::KernelSet*> sets = {&simd::portable_kernels()};
  if (simd::avx2_kernels() != nullptr && cpu.has("avx2") && cpu.has("fma") && cpu.has("f16c")) {
    sets.push_back(simd::avx2_kernels());
  }
  if (&simd::best_kernels() == simd::avx512_kernels()) sets.push_back(simd::avx512_kernels());
  if (simd::bf16dot_missing().empty()) sets.push_back(simd::bf16dot_kernels());
  return sets;
}

// Those of pairs multiply nothing but bf16.
bool takes(const ops::matmul::simd::KernelSet& set, DType dtype) { return set.depth == 1 || dtype == DType::kBf16; }
std::string usual_dtype(const ops::matmul::simd::KernelSet& set) { return set.depth == 1 ? "f32" : "bf16"; }
INSTANTIATE_TEST_SUITE_P(Simd, KernelSets, ::testing::ValuesIn(runnable_sets()),
                         [](const auto& set) { return std::string(set.param->name); });

ops::Implementation implementation_of(const ops::matmul::simd::KernelSet& kernels) {
  ops::Implementation one;
  one.name = kernels.name;
  one.run = [&kernels](const ops::Problem& problem, std::span<const TensorView> v, const Stream& stream) -> Status {
    const ops::gemm::Shape s = ops::gemm::shape_of(problem);
    const ops::matmul::simd::Arguments g{s.m,
                                         s.n,
                                         s.k,
                                         s.dtype,
                                         s.out,
                                         v[0].data,
                                         v[0].stride[0],
                                         s.trans_a,
                                         v[1].data,
                                         v[1].stride[0],
                                         s.trans_b,
                                         v[2].data,
                                         v[2].stride[0],
                                         s.accumulate};
    EXPECT_TRUE(ops::matmul::simd::run(kernels, g, stream.threads));
    return ok_status();
  };
  return one;
}

TEST_P(KernelSets, MatchTheReferenceOnEveryCheckCase) {
  const ops::Implementation one = implementation_of(*GetParam());
  const ops::Operator& op = **ops::find_operator("gemm");
  std::uint64_t seed = 100;
  for (const ops::Problem& problem : check_problems(op)) {
    const ops::gemm::Shape s = ops::gemm::shape_of(problem);
    if (s.epilogue() || s.batch != 1 || !takes(*GetParam(), s.dtype)) continue;  // the former are made of these kernels
    EXPECT_EQ(check_run(op, one, problem, kAwkward, ++seed, 2), "") << problem.problem_case.text();
  }
}

TEST_P(KernelSets, MatchTheReferenceAtEveryTileHeightAndWidth) {
  const ops::Implementation one = implementation_of(*GetParam());
  const ops::Operator& op = **ops::find_operator("gemm");
  for (int size = 1; size <= 33; ++size) {
    for (const char* layout : {"nn", "nt", "tt"}) {
      const auto check = [&](int m, int n, int k) {
        const ops::Problem problem =
            problem_of(fmt::format("m={} n={} k={} layout={} dtype={}", m, n, k, layout, usual_dtype(*GetParam())));
        EXPECT_EQ(check_run(op, one, problem, kAwkward, 7, 1), "") << problem.problem_case.text();
      };
      check(size, 35, 9);
      check(15, size, 9);
      check(3, 17, size);
      check(size, 3, 65 + size);
    }
  }
}

// Shapes past every block size: several bands, strips and blocks of k, both packed and in place.
TEST_P(KernelSets, MatchTheReferenceAcrossCacheBlocks) {
  const ops::Implementation one = implementation_of(*GetParam());
  const ops::Operator& op = **ops::find_operator("gemm");
  for (const char* text : {"m=40 n=1100 k=1300", "m=700 n=40 k=900 layout=tt", "m=300 n=600 k=800 dtype=bf16",
                           "m=300 n=530 k=1030 dtype=f16 layout=nt accumulate=1", "m=1 n=2100 k=1100",
                           "m=1 n=70 k=9000 layout=tt accumulate=1", "m=300 n=1100 k=1801 dtype=bf16 layout=nt",
                           "m=90 n=1100 k=1801 layout=nn out=f32 dtype=bf16 accumulate=1",
                           "m=9 n=70 k=4103 dtype=bf16 layout=nt", "m=300 n=1 k=2100 dtype=bf16 layout=nn",
                           "m=70 n=5 k=4103 accumulate=1", "m=70 n=1 k=2100 layout=tn accumulate=1"}) {
    const ops::Problem problem = problem_of(text);
    if (!takes(*GetParam(), ops::gemm::shape_of(problem).dtype)) continue;
    EXPECT_EQ(check_run(op, one, problem, kAwkward, 9, 2), "") << text;
  }
}

// Threads cut C alone: along no side of it may they change how an element is summed.
TEST_P(KernelSets, GiveTheSameBitsWhateverTheThreads) {
  const ops::Implementation one = implementation_of(*GetParam());
  for (const char* shape : {"m=9 n=700 k=2101 layout=nt", "m=700 n=3 k=1025", "m=700 n=1 k=1025 layout=tn",
                            "m=1 n=700 k=1025", "m=130 n=700 k=1025", "m=700 n=130 k=1025 layout=tt"}) {
    const ops::Problem problem = problem_of(fmt::format("{} dtype={}", shape, usual_dtype(*GetParam())));
    std::vector<double> first;
    for (const int threads : {1, 2, 3, 5, 8}) {
      Operands operands = make_operands(problem, kAwkward, 11);
      ASSERT_TRUE(one.run(problem, {operands.views(), operands.scalars}, Stream::cpu(threads)).ok());
      if (threads == 1) first = operands.all[2].values();
      EXPECT_EQ(operands.all[2].values(), first) << shape << " with " << threads << " threads";
    }
  }
}

// Sums of equal terms, whose rounding errors all point one way: a column sum written as a product.
TEST_P(KernelSets, KeepTheBoundInLongSumsOfEqualTerms) {
  constexpr std::int64_t kSteps = 200'000, kCols = 70;
  const DType dtype = GetParam()->depth == 1 ? DType::kF32 : DType::kBf16;
  std::vector<unsigned char> ones(size_bytes(dtype, kSteps)), tenths(size_bytes(dtype, kSteps * kCols));
  for (std::int64_t i = 0; i < kSteps; ++i) numerics::store(dtype, ones.data(), i, 1.0);
  for (std::int64_t i = 0; i < kSteps * kCols; ++i) numerics::store(dtype, tenths.data(), i, 0.1);
  const double exact = static_cast<double>(kSteps) * numerics::load(dtype, tenths.data(), 0);
  const double bound = 8 * 0x1p-24 * std::sqrt(static_cast<double>(kSteps)) * exact;
  for (const std::int64_t rows : {1, 3}) {
    for (const bool trans_b : {false, true}) {
      std::vector<float> sums(static_cast<std::size_t>(rows * kCols));
      ops::matmul::simd::Arguments g;
      g.m = rows;
      g.n = kCols;
      g.k = kSteps;
      g.dtype = dtype;
      g.a = ones.data();
      g.a_stride = 0;  // the same row again
      g.b = tenths.data();
      g.b_stride = trans_b ? kSteps : kCols;
      g.trans_b = trans_b;
      g.c = sums.data();
      g.c_stride = kCols;
      ASSERT_TRUE(ops::matmul::simd::run(*GetParam(), g, 2));
      for (const float sum : sums) EXPECT_NEAR(sum, exact, bound) << rows << (trans_b ? ", B transposed" : "");
    }
  }
}

// What the contract says of numbers that bf16 instructions treat in their own way.
TEST(Bf16Dot, CountsSubnormalNumbersAsZeroAndCarriesNanAndInf) {
  namespace simd = ops::matmul::simd;
  if (!simd::bf16dot_missing().empty()) GTEST_SKIP() << simd::bf16dot_missing();
  const double inf = HUGE_VAL, subnormal = 0x1p-130, least = 0x1p-126, largest = 0x1.fep127;
  const auto product = [&](std::vector<double> a, std::vector<double> b) {  // a row times two columns that are equal
    const auto k = static_cast<std::int64_t>(a.size());
    std::vector<std::uint16_t> x(a.size()), y(2 * a.size());
    for (std::int64_t p = 0; p < k; ++p) {
      numerics::store(DType::kBf16, x.data(), p, a[static_cast<std::size_t>(p)]);
      for (std::int64_t j = 0; j < 2; ++j) {
        numerics::store(DType::kBf16, y.data(), j * k + p, b[static_cast<std::size_t>(p)]);
      }
    }
    std::vector<std::uint16_t> rows(20 * x.size());  // as few rows, then in tiles
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = x[i % x.size()];
    std::vector<float> c(40, -1.0f);
    for (const std::int64_t m : {2, 20}) {
      simd::Arguments g{m, 2, k, DType::kBf16, DType::kF32, rows.data(), k, false, y.data(), k, true, c.data(), 2};
      EXPECT_TRUE(simd::run(*simd::bf16dot_kernels(), g, 1));
      for (std::int64_t e = 1; e < 2 * m; ++e) EXPECT_EQ(std::memcmp(&c[0], &c[static_cast<std::size_t>(e)], 4), 0);
    }
    return c[0];
  };
  EXPECT_EQ(product({subnormal, 1, 0}, {1, 2, 0}), 2) << "going in";
  EXPECT_EQ(product({subnormal}, {0x1p100}), 0) << "going in, though the product would be normal";
  EXPECT_EQ(product({0x1p-70}, {0x1p-60}), 0) << "coming out";
  EXPECT_EQ(product({least, least}, {1, 1}), 2 * static_cast<float>(least));
  EXPECT_EQ(product({largest, largest}, {largest, 1}), inf) << "overflow";
  EXPECT_EQ(product({inf, 1}, {2, 1}), inf);
  EXPECT_EQ(product({-inf, 1}, {2, 1}), -inf);
  EXPECT_TRUE(std::isnan(product({inf, 1}, {0, 1})));
  EXPECT_TRUE(std::isnan(product({inf, -inf, 0}, {1, 1, 0})));
  EXPECT_TRUE(std::isnan(product({std::nan(""), 1, 1}, {1, 1, 1})));
  EXPECT_EQ(product({1, 0x1p-12, 0x1p-12}, {1, 0x1p-12, 0x1p-12}), 1) << "ties to even, whichever comes first";
}

// The default order: the matrix unit, then dot products where they are at full rate, then the tiles of fp32.
TEST_F(GemmContract, TakesTheFastestKernelOfTheProcessor) {
  const device::cpu::CpuInfo& cpu = device::cpu::cpu_info();
  const bool dot = cpu.has("avx512_bf16") && cpu.vendor == "AuthenticAMD";
  const std::string expected = device::cpu::matrix_unit_missing().empty() ? "cpu_amx"
                               : dot                                      ? "cpu_bf16dot"
                                                                          : "cpu_simd";
  for (const auto& [dtype, name] : {std::pair{"bf16", expected}, {"f32", "cpu_simd"}, {"f16", "cpu_simd"}}) {
    const auto explained =
        dispatch::explain(*record::parse_case(fmt::format("gemm m=64 n=64 k=64 dtype={}", dtype)), Stream::cpu());
    ASSERT_TRUE(explained.ok());
    EXPECT_EQ(explained->choice, name) << dtype;
  }
}

// The spot check must pass what is right and see what is wrong.
class SpotCheck : public ::testing::Test {
 protected:
  void SetUp() override { compute("m=40 n=64 k=256"); }

  void compute(const std::string& text) {
    problem_ = problem_of(text);
    operands_ = make_operands(problem_, kPacked, 42);
    const auto reference = op_.reference(problem_, operands_.views());
    ASSERT_TRUE(reference.ok());
    expected_ = (*reference)[0];
    operands_.all[2].assign(expected_.value);
  }
  [[nodiscard]] double ratio(std::uint64_t seed) const {
    const auto spot = op_.spot_check(problem_, operands_.views(), seed);
    EXPECT_TRUE(spot.ok());
    return spot->finite ? spot->residual / spot->allowed : 1e30;
  }

  const ops::Operator& op_ = **ops::find_operator("gemm");
  ops::Problem problem_;
  Operands operands_;
  ops::ReferenceOutput expected_;
};

TEST_F(SpotCheck, PassesTheRightResultUnderEverySeed) {
  for (const char* text : {"m=40 n=64 k=256", "m=33 n=1 k=17", "m=5 n=300 k=1", "m=20 n=20 k=20 dtype=bf16",
                           "m=20 n=20 k=20 dtype=f16 layout=tt"}) {
    compute(text);
    for (std::uint64_t seed = 0; seed < 200; ++seed) EXPECT_LT(ratio(seed), 1.0) << text << " seed " << seed;
  }
}

TEST_F(SpotCheck, SeesOneWrongElementBeyondItsBlindFactor) {
  const double blind = op_.spot_check(problem_, operands_.views(), 0)->blind_factor;
  for (std::size_t e = 3; e < expected_.value.size(); e += 601) {
    std::vector<double> wrong = expected_.value;
    wrong[e] += 4 * blind * expected_.allowed[e];
    operands_.all[2].assign(wrong);
    for (std::uint64_t seed = 0; seed < 50; ++seed) EXPECT_GT(ratio(seed), 1.0) << "element " << e << " seed " << seed;
  }
}

TEST_F(SpotCheck, SeesTrivialPredictors) {
  operands_.all[2].assign(std::vector<double>(expected_.value.size(), 0.0));
  EXPECT_GT(ratio(1), 100.0);
  operands_.all[2].assign(std::vector<double>(expected_.value.size(), 1.0));
  EXPECT_GT(ratio(1), 100.0);
  operands_.all[2].poison();
  EXPECT_GT(ratio(1), 100.0);
}

// Wrong kernels: sums that leave out 1 % of k, inputs rounded as TF32 does, sums kept in fp16.
std::vector<double> mutant(const Operands& operands, std::size_t m, std::size_t n, std::size_t k,
                           const std::function<double(double)>& input, const std::function<double(double)>& sum,
                           std::size_t dropped) {
  const std::vector<double> a = operands.all[0].values(), b = operands.all[1].values();
  std::vector<double> c(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double s = 0;
      for (std::size_t p = 0; p + dropped < k; ++p) s = sum(s + input(a[i * k + p]) * input(b[p * n + j]));
      c[i * n + j] = s;
    }
  }
  return c;
}

double round_bits(double x, int bits) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}

// The bound of a row is too wide for this; what sees it is the mean over all rows.
TEST_F(SpotCheck, SeesTf32InputsAtFourThousandTerms) {
  compute("m=24 n=24 k=4096");
  const std::vector<double> wrong = mutant(
      operands_, 24, 24, 4096, [](double x) { return round_bits(x, 11); }, [](double x) { return x; }, 0);
  operands_.all[2].assign(wrong);
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_GT(ratio(seed), 5.0) << "seed " << seed;
}

TEST_F(SpotCheck, AndTheElementwiseToleranceSeeKernelsOfLessPrecision) {
  const auto exact = [](double x) { return x; };
  const auto tf32 = [](double x) { return round_bits(x, 11); };
  const auto fp16 = [](double x) { return round_bits(x, 11); };
  const std::vector<std::pair<const char*, std::vector<double>>> mutants = {
      {"drops 1 % of k", mutant(operands_, 40, 64, 256, exact, exact, 3)},
      {"TF32 inputs", mutant(operands_, 40, 64, 256, tf32, exact, 0)},
      {"fp16 sums", mutant(operands_, 40, 64, 256, exact, fp16, 0)}};
  for (const auto& [name, wrong] : mutants) {
    operands_.all[2].assign(wrong);
    EXPECT_NE(compare(operands_.all[2].values(), expected_, DType::kF32), "") << name;
    EXPECT_GT(ratio(11), 1.0) << name;
  }
}

}  // namespace
}  // namespace ridge::testing
