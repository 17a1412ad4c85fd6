// What is particular to gemm_fp8: the public contract, quantised products end to end, and the power of its checks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "dispatch/launch.h"
#include "numerics/convert.h"
#include "ops/gemm_fp8/gemm_fp8.h"
#include "ops/harness.h"
#include "ridge/ops/gemm_fp8.h"
#include "ridge/ops/quantize.h"

namespace ridge::testing {
namespace {

using ::testing::HasSubstr;

std::string error_of(const GemmFp8Args& args) {
  const Status status = gemm_fp8(args, Stream::cpu());
  return status ? "" : status.error().text();
}

// 0x38 is 1 in e4m3fn, 0x3c in e5m2.
class Fp8Contract : public ::testing::Test {
 protected:
  std::vector<unsigned char> a_ = std::vector<unsigned char>(6, 0x38), b_ = std::vector<unsigned char>(12, 0x38);
  std::vector<float> scale_a_ = std::vector<float>(8, 2.0f), scale_b_ = std::vector<float>(8, 0.5f);
  std::vector<float> c_ = std::vector<float>(8, 100.0f);

  GemmFp8Args good() {  // [2, 3] times [3, 4]
    GemmFp8Args args;
    args.a = TensorView::contiguous(a_.data(), DType::kE4m3fn, {2, 3});
    args.b = TensorView::contiguous(b_.data(), DType::kE4m3fn, {4, 3});
    args.trans_b = true;
    args.scale_a = TensorView::contiguous(scale_a_.data(), DType::kF32, {1});
    args.scale_b = TensorView::contiguous(scale_b_.data(), DType::kF32, {1});
    args.c = TensorView::contiguous(c_.data(), DType::kF32, {2, 4});
    return args;
  }
};

TEST_F(Fp8Contract, MultipliesCodesAndScales) {
  ASSERT_EQ(error_of(good()), "");
  EXPECT_THAT(c_, ::testing::Each(3.0f));
  GemmFp8Args args = good();
  args.accumulate = true;
  ASSERT_EQ(error_of(args), "");
  EXPECT_THAT(c_, ::testing::Each(6.0f));
  args = good();
  args.scaling = Fp8Scaling::kRow;
  args.scale_a.shape[0] = 2;
  args.scale_b.shape[0] = 4;
  scale_a_[1] = 4.0f;
  scale_b_[3] = 1.0f;
  ASSERT_EQ(error_of(args), "");
  EXPECT_THAT(c_, ::testing::ElementsAre(3, 3, 3, 6, 6, 6, 6, 12));
}

TEST_F(Fp8Contract, RefusesScalesOfAnotherShapeOrDtype) {
  GemmFp8Args args = good();
  args.scaling = Fp8Scaling::kRow;
  EXPECT_THAT(error_of(args), HasSubstr("scale_a is f32 [1]; it must be f32 [2] (row scales of op(A) [2, 3]"));
  args.scale_a.shape[0] = 2;
  EXPECT_THAT(error_of(args), HasSubstr("scale_b is f32 [1]; it must be f32 [4] (row scales of op(B)^T [4, 3]"));
  args = good();
  args.scale_a.dtype = DType::kBf16;
  EXPECT_THAT(error_of(args), HasSubstr("scale_a is bf16 [1]; it must be f32 [1]"));
  args = good();
  args.scaling = Fp8Scaling::kMx;
  EXPECT_THAT(error_of(args), HasSubstr("it must be e8m0 [1, 2] (mx scales of op(A) [2, 3]"));
  args.scaling = Fp8Scaling::kBlock;
  EXPECT_THAT(error_of(args), HasSubstr("it must be f32 [1, 2] (1x128 scales of"));
  args = good();
  args.scale_a.rank = 0;
  EXPECT_THAT(error_of(args), HasSubstr("scale_a"));
}

TEST_F(Fp8Contract, RefusesScalesThatAreNotFiniteAndSaysWhich) {
  GemmFp8Args args = good();
  args.scaling = Fp8Scaling::kRow;
  args.scale_a.shape[0] = 2;
  args.scale_b.shape[0] = 4;
  scale_b_[2] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(error_of(args), HasSubstr("element 2 of scale_b f32 [4] is inf (scales must be finite"));
  scale_b_[2] = 1;
  scale_a_[1] = std::nanf("");
  EXPECT_THAT(error_of(args), HasSubstr("element 1 of scale_a f32 [2] is nan"));
  EXPECT_THAT(c_, ::testing::Each(100.0f)) << "nothing is written";
}

TEST_F(Fp8Contract, RefusesOperandsWithTheValuesAndTheWayOut) {
  GemmFp8Args args = good();
  args.a.dtype = DType::kBf16;
  EXPECT_THAT(error_of(args), HasSubstr("gemm multiplies f32, bf16 and f16"));
  args = good();
  args.c.dtype = DType::kF64;
  EXPECT_THAT(error_of(args), HasSubstr("C cannot be f64 (give C bf16, f16 or f32)"));
  args = good();
  args.trans_b = false;
  EXPECT_THAT(error_of(args), HasSubstr("op(A) has k = 3 columns but op(B) has k = 4 rows"));
  args = good();
  args.c.shape[1] = 3;
  EXPECT_THAT(error_of(args), HasSubstr("C is f32 [2, 3]"));
  EXPECT_THAT(error_of(args), HasSubstr("must be f32 [2, 4]"));
  args = good();
  args.a.rank = 3;
  EXPECT_THAT(error_of(args), HasSubstr("A has rank 3"));
  args = good();
  args.b.stride = {1, 4};
  EXPECT_THAT(error_of(args), HasSubstr("columns must be contiguous"));
  args = good();
  args.a.stride = {2, 1};
  EXPECT_THAT(error_of(args), HasSubstr("rows at least 3 elements apart"));
  args = good();
  args.b.dtype = DType::kBf16;
  EXPECT_THAT(error_of(args), HasSubstr("these dtypes are not supported"));
  args = good();
  args.c.data = scale_a_.data();
  EXPECT_THAT(error_of(args), HasSubstr("C overlaps scale_a (give C memory of its own)"));
  args = good();
  args.a.data = nullptr;
  EXPECT_THAT(error_of(args), HasSubstr("data pointer is null"));
}

TEST_F(Fp8Contract, AddsABiasToEveryRowAndRefusesWhatIsNone) {
  GemmFp8Args args = good();
  float bias[4] = {1, 2, 3, 4};
  args.bias = TensorView::contiguous(bias, DType::kF32, {4});
  ASSERT_EQ(error_of(args), "");
  EXPECT_THAT(c_, ::testing::ElementsAre(4, 5, 6, 7, 4, 5, 6, 7));
  args.accumulate = true;
  EXPECT_THAT(error_of(args), HasSubstr("drop the bias or the accumulation"));
  args.accumulate = false;
  args.bias = TensorView::contiguous(bias, DType::kF32, {3});
  EXPECT_THAT(error_of(args),
              HasSubstr("bias is f32 [3]; it must be f32 [4] (one for each column of C, in its dtype)"));
}

TEST_F(Fp8Contract, WithoutTermsGivesZerosOrLeavesTheSum) {
  GemmFp8Args args = good();
  args.a = TensorView::contiguous(nullptr, DType::kE4m3fn, {2, 0});
  args.b = TensorView::contiguous(nullptr, DType::kE4m3fn, {4, 0});
  args.accumulate = true;
  ASSERT_EQ(error_of(args), "");
  EXPECT_THAT(c_, ::testing::Each(100.0f));
  args.accumulate = false;
  ASSERT_EQ(error_of(args), "");
  EXPECT_THAT(c_, ::testing::Each(0.0f));
}

TEST_F(Fp8Contract, CarriesInfinitiesOfE5m2) {
  std::fill(a_.begin(), a_.end(), static_cast<unsigned char>(0x3c));
  a_[4] = 0x7c;  // Inf
  GemmFp8Args args = good();
  args.a.dtype = DType::kE5m2;
  ASSERT_EQ(error_of(args), "");
  EXPECT_EQ(c_[0], 3);
  EXPECT_EQ(c_[4], std::numeric_limits<float>::infinity());
}

// What quantize writes is what gemm_fp8 reads: the three products of a linear layer y = x w^T, for every granularity of
// training, hold the floors that users know (25 dB for e4m3fn).
struct Layer {
  static constexpr std::int64_t kM = 96, kN = 140, kK = 200;
  std::vector<float> x = random(kM * kK, 1), w = random(kN * kK, 2), dy = random(kM * kN, 3);

  static std::vector<float> random(std::int64_t count, unsigned seed) {
    std::vector<float> values(static_cast<std::size_t>(count));
    numerics::fill(TensorView::contiguous(values.data(), DType::kF32, {count}), numerics::Family::kNormal, seed);
    return values;
  }
};

// A quantised matrix with scales along its columns.
struct Fp8Matrix {
  std::vector<unsigned char> codes;
  std::vector<unsigned char> scales;
  TensorView q, scale;
};

Fp8Matrix quantised(std::vector<float>& values, std::int64_t rows, std::int64_t cols, bool transpose, Granularity g) {
  Fp8Matrix made;
  const std::int64_t r = transpose ? cols : rows, c = transpose ? rows : cols;
  made.codes.resize(values.size());
  const std::vector<std::int64_t> shape = ops::scale_shape(g, r, c);
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  made.scales.resize(size_bytes(ops::scale_dtype(g), count));
  made.q = TensorView::contiguous(made.codes.data(), DType::kE4m3fn, {r, c});
  made.scale = shape.size() == 1
                   ? TensorView::contiguous(made.scales.data(), ops::scale_dtype(g), {shape[0]})
                   : TensorView::contiguous(made.scales.data(), ops::scale_dtype(g), {shape[0], shape[1]});
  QuantizeArgs args;
  args.x = TensorView::contiguous(values.data(), DType::kF32, {rows, cols});
  (transpose ? args.q_t : args.q) = made.q;
  (transpose ? args.scale_t : args.scale) = made.scale;
  args.granularity = g;
  args.rule = g == Granularity::kMx ? ScaleRule::kFloor : ScaleRule::kExact;
  const Status status = quantize(args, Stream::cpu());
  EXPECT_TRUE(status) << status.error().text();
  return made;
}

// A stored matrix read by rows or, transposed, by columns.
struct Read {
  const std::vector<float>& values;
  std::int64_t stride;
  bool transposed = false;
  [[nodiscard]] double at(std::int64_t i, std::int64_t p) const {
    return static_cast<double>(values[static_cast<std::size_t>(transposed ? p * stride + i : i * stride + p)]);
  }
};

// Of found [rows, cols] against the sums over `terms` of a(i, p) b(j, p).
double snr_db(const std::vector<float>& found, const Read& a, const Read& b, std::int64_t rows, std::int64_t cols,
              std::int64_t terms) {
  double signal = 0, noise = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      double right = 0;
      for (std::int64_t p = 0; p < terms; ++p) right += a.at(i, p) * b.at(j, p);
      const double error = static_cast<double>(found[static_cast<std::size_t>(i * cols + j)]) - right;
      signal += right * right;
      noise += error * error;
    }
  }
  return 10 * std::log10(signal / noise);
}

TEST(Fp8Layer, ForwardAndBothGradientsKeepTwentyFiveDecibels) {
  Layer l;
  constexpr std::int64_t kM = Layer::kM, kN = Layer::kN, kK = Layer::kK;
  for (const Fp8Scaling scaling : {Fp8Scaling::kTensor, Fp8Scaling::kRow, Fp8Scaling::kBlock, Fp8Scaling::kMx}) {
    const Fp8Scaling for_w = scaling == Fp8Scaling::kBlock ? Fp8Scaling::kVector : scaling;
    const auto g = ops::gemm_fp8::granularities(scaling), gw = ops::gemm_fp8::granularities(for_w);
    const auto product = [&](const Fp8Matrix& a, const Fp8Matrix& b, Fp8Scaling which) {
      std::vector<float> c(static_cast<std::size_t>(a.q.shape[0] * b.q.shape[0]));
      GemmFp8Args args{a.q, b.q, a.scale, b.scale};
      args.c = TensorView::contiguous(c.data(), DType::kF32, {a.q.shape[0], b.q.shape[0]});
      args.trans_b = true;
      args.scaling = which;
      EXPECT_EQ(error_of(args), "");
      return c;
    };
    // y = x w^T; dx = dy w; dw = dy^T x: the transposed copies are those that quantize wrote.
    const std::vector<float> y =
        product(quantised(l.x, kM, kK, false, g.a), quantised(l.w, kN, kK, false, g.b), scaling);
    EXPECT_GE(snr_db(y, {l.x, kK}, {l.w, kK}, kM, kN, kK), 25.0);
    const std::vector<float> dx =
        product(quantised(l.dy, kM, kN, false, g.a), quantised(l.w, kN, kK, true, g.b), scaling);
    EXPECT_GE(snr_db(dx, {l.dy, kN}, {l.w, kK, true}, kM, kK, kN), 25.0);
    const std::vector<float> dw =
        product(quantised(l.dy, kM, kN, true, gw.a), quantised(l.x, kM, kK, true, gw.b), for_w);
    EXPECT_GE(snr_db(dw, {l.dy, kN, true}, {l.x, kK, true}, kN, kK, kM), 25.0);
  }
}

// Wrong kernels that the element check must see with fp32 sums, and what it may not see with the matrix unit's.
class Fp8Check : public ::testing::Test {
 protected:
  std::string judged(const std::string& sums, const std::function<void(std::vector<double>&, std::size_t)>& spoil) {
    const ops::Operator& op = **ops::find_operator("gemm_fp8");
    const ops::Problem problem =
        *op.bind(*record::parse_case("gemm_fp8 m=24 n=24 k=1024 scaling=block out=f32 sums=" + sums));
    const Operands before = make_operands(problem, kPacked, 9), after = make_operands(problem, kPacked, 9);
    EXPECT_TRUE(op.implementations[0].run(problem, after.views(), Stream::cpu()).ok());
    std::vector<double> c = after.all[4].values();
    for (std::size_t e = 0; e < c.size(); ++e) spoil(c, e);
    return compare(c, (*op.reference(problem, before.views()))[0], DType::kF32);
  }
};

TEST_F(Fp8Check, SeesSumsInAShorterTypeThanAskedFor) {
  const auto half = [](std::vector<double>& c, std::size_t e) { c[e] = numerics::round_to(DType::kF16, c[e]); };
  EXPECT_EQ(judged("f32", [](auto&, std::size_t) {}), "");
  EXPECT_NE(judged("f32", half), "");
  EXPECT_EQ(judged("promoted", [](auto&, std::size_t) {}), "") << "a more exact sum serves a less exact wish";
  EXPECT_NE(judged("promoted", [](std::vector<double>& c, std::size_t e) { c[e] *= 1.5; }), "");
}

TEST(Fp8Cost, CountsScalesToo) {
  const ops::Operator& op = **ops::find_operator("gemm_fp8");
  const auto problem = op.bind(*record::parse_case("gemm_fp8 m=256 n=128 k=384 scaling=block out=f32 accumulate=1"));
  ASSERT_TRUE(problem);
  EXPECT_EQ(op.cost(*problem).flop, 2.0 * 256 * 128 * 384);
  EXPECT_EQ(op.cost(*problem).bytes, 256 * 384 + 384 * 128 + 4 * (3 * 256 + 3) + 2 * 4 * 256 * 128);
}

}  // namespace
}  // namespace ridge::testing
