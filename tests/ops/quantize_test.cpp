// What is particular to quantize and dequantize: the public contract, examples worked by hand, and what the check sees.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "dispatch/launch.h"
#include "numerics/convert.h"
#include "ops/harness.h"
#include "ridge/ops/dequantize.h"
#include "ridge/ops/quantize.h"

namespace ridge::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

// A small f32 matrix and everything quantising it may write.
struct Quantised {
  std::vector<float> x;
  std::int64_t rows, cols;
  std::vector<unsigned char> q, q_t;
  std::vector<float> scale, scale_t;

  Quantised(std::int64_t r, std::int64_t c, std::vector<float> values)
      : x(std::move(values)), rows(r), cols(c), q(x.size()), q_t(x.size()), scale(64, -1.0f), scale_t(64, -1.0f) {}

  QuantizeArgs args(DType format = DType::kE4m3fn) {
    QuantizeArgs args;
    args.x = TensorView::contiguous(x.data(), DType::kF32, {rows, cols});
    args.q = TensorView::contiguous(q.data(), format, {rows, cols});
    args.scale = TensorView::contiguous(scale.data(), DType::kF32, {1});
    return args;
  }
  std::vector<double> codes(DType format = DType::kE4m3fn) {
    return numerics::to_doubles(TensorView::contiguous(q.data(), format, {rows, cols}));
  }
};

std::string error_of(const QuantizeArgs& args) {
  const Status status = quantize(args, Stream::cpu());
  return status ? "" : status.error().text();
}

std::string error_of(const DequantizeArgs& args) {
  const Status status = dequantize(args, Stream::cpu());
  return status ? "" : status.error().text();
}

TEST(Quantize, TakesTheWholeRangeOfTheFormat) {
  Quantised m(1, 4, {1.0f, -2.0f, 0.5f, 0.0f});
  ASSERT_EQ(error_of(m.args()), "");
  EXPECT_EQ(m.scale[0], 2.0f / 448.0f);
  EXPECT_THAT(m.codes(), ElementsAre(224, -448, 112, 0));
}

TEST(Quantize, NamesItsPowerOfTwoRulesAsTheMxSpecificationDoes) {
  // 1.9 * 2^8 is above 448 = 1.75 * 2^8 and below 1.9375 * 2^8, from where `even` takes the next power.
  const struct {
    float most;
    ScaleRule rule;
    float scale;
  } examples[] = {{486.0f, ScaleRule::kFloor, 1}, {486.0f, ScaleRule::kEven, 1}, {486.0f, ScaleRule::kCeil, 2},
                  {500.0f, ScaleRule::kFloor, 1}, {500.0f, ScaleRule::kEven, 2}, {500.0f, ScaleRule::kCeil, 2},
                  {448.0f, ScaleRule::kFloor, 1}, {448.0f, ScaleRule::kEven, 1}, {448.0f, ScaleRule::kCeil, 1}};
  for (const auto& [most, rule, scale] : examples) {
    Quantised m(1, 2, {most, 1.0f});
    QuantizeArgs args = m.args();
    args.rule = rule;
    ASSERT_EQ(error_of(args), "");
    EXPECT_EQ(m.scale[0], scale) << most << " rule " << static_cast<int>(rule);
    EXPECT_LE(m.codes()[0], 448) << "saturates, and does not become NaN";
  }
}

TEST(Quantize, CarriesNanAndInfWithoutLosingTheirNeighbours) {
  Quantised m(1, 4, {std::nanf(""), kInf, 2.0f, -kInf});
  ASSERT_EQ(error_of(m.args(DType::kE5m2)), "");
  EXPECT_EQ(m.scale[0], 2.0f / 57344.0f);
  const std::vector<double> wide = m.codes(DType::kE5m2);
  EXPECT_TRUE(std::isnan(wide[0]));
  EXPECT_EQ(wide[1], kInf);
  EXPECT_EQ(wide[2], 57344);
  EXPECT_EQ(wide[3], -kInf);
  ASSERT_EQ(error_of(m.args()), "");
  const std::vector<double> finite = m.codes();
  EXPECT_TRUE(std::isnan(finite[0]) && std::isnan(finite[1]) && std::isnan(finite[3])) << "e4m3fn has no infinity";
  EXPECT_EQ(finite[2], 448);
}

TEST(Quantize, GivesGroupsOfZerosAScaleOfOne) {
  Quantised m(2, 2, {0.0f, -0.0f, 3.0f, kInf});
  QuantizeArgs args = m.args();
  args.granularity = Granularity::kRow;
  args.scale = TensorView::contiguous(m.scale.data(), DType::kF32, {2});
  ASSERT_EQ(error_of(args), "");
  EXPECT_EQ(m.scale[0], 1);
  EXPECT_EQ(m.scale[1], 3.0f / 448.0f);
  args.x.shape[1] = args.q.shape[1] = 0;
  args.x.data = args.q.data = nullptr;
  ASSERT_EQ(error_of(args), "") << "rows without elements";
  EXPECT_EQ(m.scale[1], 1);
}

TEST(Quantize, TransposedCopyIsWhatQuantisingTheTransposeGives) {
  const std::int64_t rows = 150, cols = 70;
  const ops::Operator& op = **ops::find_operator("quantize");
  for (const char* scaling : {"tensor", "row", "1x128", "128x128", "mx"}) {
    const auto one = op.bind(*record::parse_case(
        fmt::format("quantize rows={} cols={} dtype=f32 scaling={} copies=column", rows, cols, scaling)));
    const auto other = op.bind(*record::parse_case(
        fmt::format("quantize rows={} cols={} dtype=f32 scaling={} copies=row", cols, rows, scaling)));
    ASSERT_TRUE(one.ok() && other.ok());
    const Operands of_x = make_operands(*one, kAwkward, 3);
    Operands of_transpose = make_operands(*other, kAwkward, 4);
    const std::vector<double> x = of_x.all[0].values();
    std::vector<double> flipped(x.size());
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        flipped[static_cast<std::size_t>(c * rows + r)] = x[static_cast<std::size_t>(r * cols + c)];
      }
    }
    of_transpose.all[0].assign(flipped);
    ASSERT_TRUE(op.implementations[0].run(*one, of_x.views(), Stream::cpu(2)).ok());
    ASSERT_TRUE(op.implementations[0].run(*other, of_transpose.views(), Stream::cpu(1)).ok());
    EXPECT_EQ(of_x.all[1].values(), of_transpose.all[1].values()) << scaling;
    EXPECT_EQ(of_x.all[2].values(), of_transpose.all[2].values()) << scaling;
  }
}

TEST(Quantize, StochasticRoundingIsReproducibleAndOnAverageTheValue) {
  constexpr std::int64_t kCount = 20000;
  std::vector<float> values(kCount, 17.3f);  // between 16 and 18
  values[0] = 448.0f;                        // scale 1
  Quantised m(1, kCount, values), again(1, kCount, values), later(1, kCount, values);
  std::uint64_t words[2] = {7, 1000};
  const auto run = [&](Quantised& into) {
    QuantizeArgs args = into.args();
    args.random = words;
    ASSERT_EQ(error_of(args), "");
  };
  run(m);
  run(again);
  words[1] += kCount;
  run(later);
  EXPECT_EQ(m.q, again.q);
  EXPECT_NE(m.q, later.q) << "the next words of the stream";
  double sum = 0;
  for (const double code : m.codes()) {
    EXPECT_TRUE(code == 16 || code == 18 || code == 448);
    if (code != 448) sum += code;
  }
  // Standard deviation of the mean: 2 * sqrt(0.35 * 0.65 / 20000) = 0.007.
  EXPECT_NEAR(sum / (kCount - 1), 17.3, 0.035);
}

TEST(Quantize, AndBackLosesHalfAStepAtMost) {
  const std::int64_t rows = 40, cols = 200;
  std::vector<float> x;
  for (std::int64_t i = 0; i < rows * cols; ++i)
    x.push_back(std::sin(static_cast<float>(i)) * std::exp2(static_cast<float>(i % 7)));
  Quantised m(rows, cols, x);
  QuantizeArgs args = m.args();
  args.granularity = Granularity::kVector;
  std::vector<float> scale(2 * rows);
  args.scale = TensorView::contiguous(scale.data(), DType::kF32, {2, rows});
  ASSERT_EQ(error_of(args), "");
  std::vector<float> y(x.size());
  DequantizeArgs back{args.q, args.scale, TensorView::contiguous(y.data(), DType::kF32, {rows, cols}),
                      args.granularity};
  ASSERT_EQ(error_of(back), "");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float step = scale[i % 200 / 128 * 40 + i / 200];
    EXPECT_LE(std::fabs(y[i] - x[i]), std::max(std::fabs(x[i]) / 16, step * 0x1p-10f) * 1.0001f) << i;
  }
}

TEST(Quantize, MakesTheScaleOfAGivenMagnitudeAndSaysItsOwn) {
  Quantised m(1, 5, {1.0f, -2.0f, 0.5f, 8.0f, 1e30f});
  float amax = 4, found = -1;
  QuantizeArgs args = m.args();
  args.amax = &amax, args.found = &found;
  ASSERT_EQ(error_of(args), "");
  EXPECT_EQ(m.scale[0], 4.0f / 448.0f);
  EXPECT_THAT(m.codes(), ElementsAre(112, -224, 56, 448, 448)) << "what is beyond saturates";
  EXPECT_EQ(found, 1e30f);
  amax = 1e-30f;  // quotients beyond fp32
  ASSERT_EQ(error_of(args), "");
  EXPECT_EQ(m.codes()[4], 448);
}

TEST(Quantize, WithoutAMagnitudeYetIsWhatItIsWithoutOne) {
  std::vector<float> values;
  for (int i = 0; i < 40 * 70; ++i) values.push_back(std::sin(static_cast<float>(i)) * static_cast<float>(i % 11));
  Quantised own(40, 70, values), given(40, 70, values);
  const auto both = [](Quantised& m) {
    QuantizeArgs args = m.args();
    args.q_t = TensorView::contiguous(m.q_t.data(), DType::kE4m3fn, {m.cols, m.rows});
    args.scale_t = TensorView::contiguous(m.scale_t.data(), DType::kF32, {1});
    return args;
  };
  ASSERT_EQ(error_of(both(own)), "");
  for (const float empty : {0.0f, -0.0f}) {
    float amax = empty, found = -1;
    QuantizeArgs args = both(given);
    args.amax = &amax, args.found = &found;
    ASSERT_EQ(error_of(args), "");
    EXPECT_EQ(given.q, own.q);
    EXPECT_EQ(given.q_t, own.q_t);
    EXPECT_EQ(given.scale, own.scale);
    EXPECT_EQ(given.scale_t, own.scale_t);
    EXPECT_EQ(found / 448.0f, own.scale[0]);
  }
}

TEST(Quantize, FindsAnInfinityWhereThereIsNanOrInf) {
  const struct {
    float bad, amax, scale, found;
  } examples[] = {{kInf, 4, 4, kInf},          {-kInf, 4, 4, kInf}, {std::nanf(""), 4, 4, kInf},
                  {std::nanf(""), 0, 3, kInf}, {-3, 4, 4, 3},       {-3, 0, 3, 3}};
  for (const auto& [bad, amax, scale, found] : examples) {
    for (const bool last : {false, true}) {  // rows before and behind it are looked at alike
      Quantised m(3, 2, {1.0f, 2.0f, -3.0f, 0.5f, 0.25f, 3.0f});
      m.x[last ? 4 : 0] = bad;
      float most = -1;
      QuantizeArgs args = m.args();
      args.amax = &amax, args.found = &most;
      ASSERT_EQ(error_of(args), "");
      EXPECT_EQ(most, found) << bad;
      EXPECT_EQ(m.scale[0], scale / 448.0f) << bad;
      EXPECT_EQ(std::isnan(m.codes()[last ? 4 : 0]), !std::isfinite(bad)) << bad;
    }
  }
}

TEST(Quantize, RefusesAGivenMagnitudeThatIsNone) {
  Quantised m(2, 3, {1, 2, 3, 4, 5, 6});
  float amax = 1, found = 0;
  QuantizeArgs args = m.args();
  args.amax = &amax;
  EXPECT_THAT(error_of(args), HasSubstr("amax is given and found is null"));
  args.amax = nullptr, args.found = &found;
  EXPECT_THAT(error_of(args), HasSubstr("found is given and amax is null"));
  args.amax = &amax;
  for (const float bad : {-1.0f, kInf, std::nanf("")}) {
    amax = bad;
    EXPECT_THAT(error_of(args), HasSubstr(fmt::format("amax is {}", bad)));
    EXPECT_THAT(error_of(args), HasSubstr("give a finite magnitude, or 0 where there is none yet"));
  }
  amax = 1;
  args.found = m.x.data();
  EXPECT_THAT(error_of(args), HasSubstr("found overlaps x"));
  args.found = &amax;
  EXPECT_THAT(error_of(args), HasSubstr("found overlaps amax"));
  args.found = &found;
  args.granularity = Granularity::kRow;
  args.scale = TensorView::contiguous(m.scale.data(), DType::kF32, {2});
  EXPECT_THAT(error_of(args), HasSubstr("use kTensor, or leave amax and found out"));
  const auto bound = (*ops::find_operator("quantize"))->bind(*record::parse_case("quantize scaling=row amax=given"));
  ASSERT_FALSE(bound.ok());
  EXPECT_THAT(bound.error().text(), HasSubstr("use scaling=tensor, or amax=own"));
}

TEST(Quantize, RefusesWithTheValuesAndTheWayOut) {
  Quantised m(2, 3, {1, 2, 3, 4, 5, 6});
  QuantizeArgs args = m.args();
  args.q.shape[1] = 2;
  EXPECT_THAT(error_of(args), HasSubstr("q is e4m3fn [2, 2]"));
  EXPECT_THAT(error_of(args), HasSubstr("it must be e4m3fn [2, 3] (x is f32 [2, 3])"));
  args = m.args(DType::kE2m1);
  EXPECT_THAT(error_of(args), HasSubstr("give e4m3fn or e5m2"));
  args = m.args();
  args.scale.shape[0] = 2;
  EXPECT_THAT(error_of(args), HasSubstr("scale is f32 [2]; it must be f32 [1] (the layout of tensor scales is in"));
  args = m.args();
  args.granularity = Granularity::kMx;
  EXPECT_THAT(error_of(args), HasSubstr("choose kFloor (the MX specification's), kEven or kCeil"));
  args.rule = ScaleRule::kFloor;
  EXPECT_THAT(error_of(args), HasSubstr("it must be e8m0 [1, 2]"));
  args = m.args();
  args.q = args.scale = TensorView();
  EXPECT_THAT(error_of(args), HasSubstr("neither q nor q_t is given"));
  args = m.args();
  args.q.data = m.x.data();
  EXPECT_THAT(error_of(args), HasSubstr("q overlaps x (give q memory of its own)"));
  args = m.args();
  args.scale.data = m.q.data();
  EXPECT_THAT(error_of(args), HasSubstr("overlaps"));
  args = m.args();
  args.x.dtype = DType::kF64;
  EXPECT_THAT(error_of(args), HasSubstr("give f32, bf16 or f16"));
  args = m.args();
  args.x.stride = {1, 2};
  EXPECT_THAT(error_of(args), HasSubstr("columns must be contiguous"));
  args = m.args();
  args.x.data = nullptr;
  EXPECT_THAT(error_of(args), HasSubstr("its data pointer is null"));
}

TEST(Dequantize, RefusesWithTheValuesAndTheWayOut) {
  unsigned char q[6] = {};
  float scale[3] = {}, y[6] = {};
  DequantizeArgs good{TensorView::contiguous(q, DType::kE5m2, {2, 3}), TensorView::contiguous(scale, DType::kF32, {2}),
                      TensorView::contiguous(y, DType::kF32, {2, 3}), Granularity::kRow};
  EXPECT_EQ(error_of(good), "");
  DequantizeArgs args = good;
  args.scale.dtype = DType::kBf16;
  EXPECT_THAT(error_of(args), HasSubstr("scale is bf16 [2]; it must be f32 [2]"));
  args = good;
  args.y.shape[0] = 3;
  EXPECT_THAT(error_of(args), HasSubstr("y is f32 [3, 3]; it must be f32 [2, 3]"));
  args = good;
  args.q.dtype = DType::kF16;
  EXPECT_THAT(error_of(args), HasSubstr("give e4m3fn or e5m2"));
  args = good;
  args.y.data = q;
  EXPECT_THAT(error_of(args), HasSubstr("y overlaps q"));
  args = good;
  args.q.rank = 1;
  EXPECT_THAT(error_of(args), HasSubstr("q has rank 1; it must have rank 2"));
}

// Quantisers that others ship and ours must not become: each is seen by the element check alone.
class QuantizeCheck : public ::testing::Test {
 protected:
  void compute(const std::string& text) {
    const auto problem = op_.bind(*record::parse_case("quantize " + text));
    ASSERT_TRUE(problem.ok());
    problem_ = *problem;
    operands_ = make_operands(problem_, kPacked, 42);
    ASSERT_TRUE(op_.implementations[0].run(problem_, operands_.views(), Stream::cpu()).ok());
    expected_ = *op_.reference(problem_, operands_.views());
  }
  std::string with(const std::function<double(double q, double x, double scale)>& other) {
    const std::vector<double> x = operands_.all[0].values(), scale = operands_.all[2].values();
    std::vector<double> q = operands_.all[1].values();
    for (std::size_t i = 0; i < q.size(); ++i) {
      q[i] = numerics::round_to(DType::kE4m3fn, other(q[i], x[i], scale[0]), {.saturate = true});
    }
    return compare(q, expected_[0], DType::kE4m3fn);
  }

  const ops::Operator& op_ = **ops::find_operator("quantize");
  ops::Problem problem_;
  Operands operands_;
  std::vector<ops::ReferenceOutput> expected_;
};

TEST_F(QuantizeCheck, SeesOtherQuantisers) {
  compute("rows=64 cols=64 dtype=f32 scaling=tensor");
  EXPECT_EQ(with([](double q, double, double) { return q; }), "");
  EXPECT_NE(with([](double, double x, double scale) { return x / scale * (1 - 0x1p-5); }), "") << "truncates";
  EXPECT_NE(with([](double, double x, double scale) {
              return numerics::round_to(DType::kBf16, numerics::round_to(DType::kBf16, x) / scale);
            }),
            "")
      << "quotients in bf16: rounded twice";
  EXPECT_NE(with([](double q, double, double) { return q == 448 || q == -448 ? 0 : q; }), "") << "loses the largest";
  EXPECT_NE(with([](double, double x, double) { return x; }), "") << "ignores the scale";
}

}  // namespace
}  // namespace ridge::testing
