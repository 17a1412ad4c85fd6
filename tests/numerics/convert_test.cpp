#include "numerics/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "numerics/cpu_isa.h"
#include "numerics/fill.h"
#include "numerics/format.h"
#include "numerics/philox.h"

namespace ridge::numerics {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr DType kNarrow[] = {DType::kF16,  DType::kBf16,     DType::kE4m3fn,   DType::kE5m2,
                             DType::kE2m1, DType::kE4m3fnuz, DType::kE5m2fnuz, DType::kE8m0};

std::vector<float> many_floats() {
  std::vector<float> values;
  for (std::uint32_t i = 0; i < 1U << 18; ++i) {
    values.push_back(std::bit_cast<float>((i << 14) | (philox_word(7, i) & 0x3fffU)));
    values.push_back(std::ldexp(1.0F + static_cast<float>(i % 4096) / 4096.0F, static_cast<int>(i / 4096) - 32));
  }
  for (const float special : {0.0F, -0.0F, kInf, -kInf, kNan, -kNan}) values.push_back(special);
  return values;
}

std::uint64_t code_at(DType dtype, const std::vector<std::uint8_t>& codes, std::size_t i) {
  switch (size_bits(dtype)) {
    case 16: return static_cast<std::uint64_t>(codes[2 * i] | (codes[2 * i + 1] << 8));
    case 4: return (codes[i / 2] >> (4 * (i % 2))) & 0xfU;
    default: return codes[i];
  }
}

TEST(Convert, EveryCodeSurvivesDecodeAndEncode) {
  for (const DType dtype : kNarrow) {
    for (std::uint64_t code = 0; code < std::uint64_t{1} << size_bits(dtype); ++code) {
      const double value = decode(dtype, code);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(round_to(dtype, value))) << to_string(dtype) << " " << code;
      } else {
        EXPECT_EQ(encode(dtype, value), code) << to_string(dtype);
        EXPECT_EQ(encode(dtype, static_cast<float>(value)), code) << to_string(dtype);
      }
    }
  }
}

// Each instruction set in turn; those the machine lacks repeat the best it has.
class EveryIsa : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { isa_limit = GetParam(); }
  void TearDown() override { isa_limit = Isa::kAvx512; }
};
INSTANTIATE_TEST_SUITE_P(Convert, EveryIsa, ::testing::Values(Isa::kPortable, Isa::kAvx2, Isa::kAvx512));

TEST_P(EveryIsa, BulkEncodeEqualsScalarBitForBit) {
  const std::vector<float> values = many_floats();
  std::vector<std::uint8_t> codes(values.size() * 2);
  for (const DType dtype : kNarrow) {
    for (const bool saturate : {false, true}) {
      const Rounding rounding{.saturate = saturate};
      from_float(dtype, values.data(), codes.data(), static_cast<std::int64_t>(values.size()), rounding);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        wrong += code_at(dtype, codes, i) != encode(dtype, values[i], rounding) ? 1 : 0;
      }
      EXPECT_EQ(wrong, 0U) << to_string(dtype) << " saturate " << saturate << " on " << bulk_conversion_isa();
    }
  }
}

TEST_P(EveryIsa, BulkDecodeEqualsScalar) {
  for (const DType dtype : kNarrow) {
    const std::size_t count = std::size_t{1} << size_bits(dtype);
    std::vector<std::uint8_t> codes;
    for (std::size_t code = 0; code < count; ++code) {
      if (size_bits(dtype) == 4 && code % 2 == 1) continue;
      codes.push_back(static_cast<std::uint8_t>(size_bits(dtype) == 4 ? code | ((code + 1) << 4) : code));
      if (size_bits(dtype) == 16) codes.push_back(static_cast<std::uint8_t>(code >> 8));
    }
    std::vector<float> values(count);
    to_float(dtype, codes.data(), values.data(), static_cast<std::int64_t>(count));
    for (std::size_t code = 0; code < count; ++code) {
      const double want = decode(dtype, code);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(values[code])) << to_string(dtype) << " " << code;
      } else {
        EXPECT_EQ(static_cast<double>(values[code]), want) << to_string(dtype) << " " << code;
      }
    }
  }
}

TEST_P(EveryIsa, TailsOfAnyLengthAreConverted) {
  for (const DType dtype : kNarrow) {
    for (std::int64_t n = 0; n < 70; ++n) {
      std::vector<float> in(static_cast<std::size_t>(n)), out(static_cast<std::size_t>(n) + 1, -7.0F);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(1 << (i % 3));
      std::vector<std::uint8_t> codes(size_bytes(dtype, n) + 1, 0xa5);
      from_float(dtype, in.data(), codes.data(), n);
      EXPECT_EQ(codes.back(), 0xa5) << to_string(dtype) << " wrote past element " << n;
      to_float(dtype, codes.data(), out.data(), n);
      EXPECT_EQ(out.back(), -7.0F);
      out.pop_back();
      EXPECT_EQ(out, in) << to_string(dtype) << " " << n;
    }
  }
}

TEST_P(EveryIsa, FillsTheSameMixture) {
  std::vector<float> here(5000), best(5000);
  generate(Family::kMixture, 21, 0, here);
  isa_limit = Isa::kAvx512;
  generate(Family::kMixture, 21, 0, best);
  EXPECT_EQ(here, best);
}

TEST(Convert, OverflowFollowsEachFormatsRule) {
  EXPECT_EQ(round_to(DType::kF16, 65519.0), 65504.0);
  EXPECT_EQ(round_to(DType::kF16, 65520.0), kInf);
  EXPECT_EQ(round_to(DType::kE5m2, -1e9), -kInf);
  EXPECT_TRUE(std::isnan(round_to(DType::kE4m3fn, 480.0)));
  EXPECT_EQ(round_to(DType::kE4m3fn, 464.0), 448.0);
  EXPECT_TRUE(std::isnan(round_to(DType::kE4m3fnuz, 1e9)));
  EXPECT_EQ(encode(DType::kE5m2fnuz, 1e9), 0x80U);
  EXPECT_EQ(round_to(DType::kE2m1, -1e9), -6.0);
  EXPECT_EQ(round_to(DType::kE2m1, static_cast<double>(kInf)), 6.0);
  EXPECT_EQ(encode(DType::kE8m0, 0x1.8p127), 0xffU);
  EXPECT_EQ(round_to(DType::kF32, 1e300), kInf);
}

TEST(Convert, SaturationKeepsTheLargestFiniteValue) {
  const Rounding saturate{.saturate = true};
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kF64 || is_integer(dtype)) continue;
    EXPECT_EQ(round_to(dtype, 1e300, saturate), max_value(dtype)) << to_string(dtype);
    EXPECT_EQ(round_to(dtype, static_cast<double>(kInf), saturate), max_value(dtype)) << to_string(dtype);
    if (dtype == DType::kE8m0) continue;
    EXPECT_EQ(round_to(dtype, -1e300, saturate), -max_value(dtype)) << to_string(dtype);
  }
}

TEST(Convert, NanStaysNanWhereTheFormatHasOne) {
  for (const DType dtype : kNarrow) {
    for (const bool saturate : {false, true}) {
      const double back = round_to(dtype, static_cast<double>(kNan), {.saturate = saturate});
      if (dtype == DType::kE2m1) {
        EXPECT_EQ(back, 6.0);
      } else {
        EXPECT_TRUE(std::isnan(back)) << to_string(dtype);
      }
    }
  }
  EXPECT_EQ(encode(DType::kBf16, -kNan), 0xffc0U);
  EXPECT_EQ(encode(DType::kE4m3fn, -kNan), 0xffU);
}

TEST(Convert, FnuzHasNoNegativeZero) {
  EXPECT_EQ(encode(DType::kE4m3fnuz, -0.0), 0U);
  EXPECT_EQ(encode(DType::kE5m2fnuz, -1e-30), 0U);
  EXPECT_EQ(encode(DType::kE4m3fn, -1e-30), 0x80U);
}

TEST(Convert, ScaleRoundingModesPickTheNamedNeighbour) {
  const auto code = [](double x, ScaleRounding scale) { return encode(DType::kE8m0, x, {.scale = scale}); };
  EXPECT_EQ(code(1.25, ScaleRounding::kFloor), 127U);
  EXPECT_EQ(code(1.25, ScaleRounding::kEven), 127U);
  EXPECT_EQ(code(1.25, ScaleRounding::kCeil), 128U);
  EXPECT_EQ(code(1.5, ScaleRounding::kEven), 128U);
  EXPECT_EQ(code(1.999, ScaleRounding::kFloor), 127U);
  EXPECT_EQ(code(4.0, ScaleRounding::kCeil), 129U);
  EXPECT_EQ(code(0.0, ScaleRounding::kCeil), 0U);
  EXPECT_EQ(code(-0.0, ScaleRounding::kEven), 0U);
  EXPECT_EQ(code(-1.0, ScaleRounding::kFloor), 0xffU);
}

TEST(Stochastic, MeanIsTheValueItself) {
  for (const DType dtype : kNarrow) {
    // Not a multiple of the spacing of any narrow format; E8M0 draws between 1 and 2.
    const float value = 1.2890625F + 0x1p-20F;
    constexpr std::int64_t kCount = 1 << 16;
    const std::vector<float> in(kCount, value);
    std::vector<std::uint8_t> codes(size_bytes(dtype, kCount));
    from_float(dtype, in.data(), codes.data(), kCount, {.mode = RoundMode::kStochastic, .seed = 11});
    std::vector<double> out(kCount);
    to_double(dtype, codes.data(), out.data(), kCount);
    const double mean = std::accumulate(out.begin(), out.end(), 0.0) / kCount;
    const double spacing = ulp(dtype, 1.0);
    // Standard error of the mean is at most spacing / 2 / sqrt(count); six of them.
    EXPECT_NEAR(mean, static_cast<double>(value), 3 * spacing / std::sqrt(static_cast<double>(kCount)))
        << to_string(dtype);
    for (const double each : out) EXPECT_LE(std::fabs(each - static_cast<double>(value)), spacing);
  }
}

TEST(Stochastic, RepresentableValuesAreKept) {
  for (const DType dtype : kNarrow) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      const Rounding rounding{.mode = RoundMode::kStochastic, .seed = seed};
      for (const double value : {1.0, 2.0, 4.0, min_positive(dtype), max_value(dtype)}) {
        EXPECT_EQ(round_to(dtype, value, rounding), value) << to_string(dtype);
      }
    }
  }
}

TEST(Stochastic, TinyDoublesDoNotRoundUpMoreOftenThanTheyShould) {
  int up = 0;
  for (std::uint64_t word = 0; word < 100000; ++word) {
    const Rounding rounding{.mode = RoundMode::kStochastic, .seed = 3, .offset = word};
    up += round_to(DType::kE4m3fn, 1e-200, rounding) != 0.0 ? 1 : 0;
  }
  EXPECT_EQ(up, 0);
}

TEST(Stochastic, DoesNotDependOnHowTheWorkIsSplit) {
  std::vector<float> in(1000);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = 1.0F + static_cast<float>(i) * 0.001F;
  std::vector<std::uint16_t> whole(in.size()), parts(in.size());
  const Rounding rounding{.mode = RoundMode::kStochastic, .seed = 5, .offset = 17};
  from_float(DType::kBf16, in.data(), whole.data(), 1000, rounding);
  for (std::int64_t start = 0; start < 1000; start += 37) {
    Rounding here = rounding;
    here.offset += static_cast<std::uint64_t>(start);
    from_float(DType::kBf16, in.data() + start, parts.data() + start, std::min<std::int64_t>(37, 1000 - start), here);
  }
  EXPECT_EQ(whole, parts);
}

TEST(Philox, MatchesTheRandom123KnownAnswers) {
  using ::testing::ElementsAre;
  EXPECT_THAT(philox4x32_10({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_THAT(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Elements, StridedViewReadsInRowMajorOrder) {
  std::vector<float> memory(3 * 8, -1.0F);
  for (int row = 0; row < 3; ++row) {
    for (int col = 0; col < 5; ++col)
      memory[static_cast<std::size_t>(row * 8 + col)] = static_cast<float>(row * 5 + col);
  }
  const TensorView view = TensorView::matrix(memory.data(), DType::kF32, 3, 5, 8);
  std::vector<double> want(15);
  std::iota(want.begin(), want.end(), 0.0);
  EXPECT_EQ(to_doubles(view), want);
  TensorView transposed = view;
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.stride[0], transposed.stride[1]);
  EXPECT_EQ(to_doubles(transposed)[1], 5.0);
  EXPECT_EQ(load_element(transposed, 3), 1.0);
}

TEST(Integers, AreTheNearestWholeNumberWithinTheirRange) {
  for (const DType dtype : {DType::kI32, DType::kI64, DType::kU8, DType::kU64}) {
    EXPECT_EQ(round_to(dtype, 2.5), 2) << to_string(dtype);
    EXPECT_EQ(round_to(dtype, 3.5), 4) << to_string(dtype);
    EXPECT_EQ(round_to(dtype, 0.49), 0) << to_string(dtype);
    EXPECT_EQ(round_to(dtype, static_cast<double>(kNan)), 0) << to_string(dtype);
    EXPECT_EQ(round_to(dtype, 1e300), max_value(dtype)) << to_string(dtype);
    EXPECT_EQ(ulp(dtype, 1000), 1) << to_string(dtype);
  }
  EXPECT_EQ(round_to(DType::kI32, -7), -7);
  EXPECT_EQ(round_to(DType::kI32, -1e300), -0x1p31);
  EXPECT_EQ(round_to(DType::kI64, -1e300), -0x1p63);
  EXPECT_EQ(round_to(DType::kU8, -1), 0);
  EXPECT_EQ(encode(DType::kI32, -1.0), 0xffffffffU);
  EXPECT_EQ(encode(DType::kI64, 1e300), 0x7fffffffffffffffU);
  EXPECT_EQ(encode(DType::kU64, 1e300), ~std::uint64_t{0});
  EXPECT_EQ(encode(DType::kU64, 0x1p53), std::uint64_t{1} << 53);
}

TEST(Integers, BulkConversionIsThatOfOneElement) {
  const std::int32_t codes[] = {-2147483647 - 1, -16777217, -1, 0, 1, 255, 16777217, 2147483647};
  std::vector<double> doubles(8);
  std::vector<float> floats(8);
  to_double(DType::kI32, codes, doubles.data(), 8);
  to_float(DType::kI32, codes, floats.data(), 8);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(doubles[i], codes[i]);
    EXPECT_EQ(floats[i], static_cast<float>(codes[i]));
  }
  std::int32_t back[8];
  from_double(DType::kI32, doubles.data(), back, 8);
  EXPECT_TRUE(std::equal(back, back + 8, codes));
  std::uint8_t bytes[8];
  from_float(DType::kU8, floats.data(), bytes, 8);
  const std::uint8_t clamped[] = {0, 0, 0, 0, 1, 255, 255, 255};
  EXPECT_TRUE(std::equal(bytes, bytes + 8, clamped));
}

TEST(Elements, StoreTouchesNothingElse) {
  for (const DType dtype : kAllDTypes) {
    std::vector<std::uint8_t> memory(16 * 8, 0);
    const TensorView view = TensorView::matrix(memory.data(), dtype, 3, 4, 5);
    const std::vector<double> background = to_doubles(TensorView::contiguous(memory.data(), dtype, {16}));
    store_element(view, 6, 2.0);  // row 1, column 2: element 7
    std::vector<double> after = to_doubles(TensorView::contiguous(memory.data(), dtype, {16}));
    EXPECT_EQ(after[7], 2.0) << to_string(dtype);
    after[7] = background[7];
    EXPECT_EQ(after, background) << to_string(dtype);
  }
}

TEST(Elements, WritingAndReadingAViewIsTheIdentity) {
  for (const DType dtype : kAllDTypes) {
    std::vector<std::uint8_t> memory(64 * 8, 0);
    const TensorView view = TensorView::matrix(memory.data(), dtype, 3, 7, 9);
    std::vector<double> values(21);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(1 << (i % 3));
    from_doubles(values, view);
    EXPECT_EQ(to_doubles(view), values) << to_string(dtype);
  }
}

TEST(Elements, EmptyViewsGiveNoValues) {
  EXPECT_TRUE(to_doubles(TensorView::contiguous(nullptr, DType::kBf16, {0, 4})).empty());
}

TEST(Format, LimitsAreThePublishedOnes) {
  EXPECT_EQ(max_value(DType::kE4m3fn), 448.0);
  EXPECT_EQ(max_value(DType::kE5m2), 57344.0);
  EXPECT_EQ(max_value(DType::kE4m3fnuz), 240.0);
  EXPECT_EQ(max_value(DType::kE5m2fnuz), 57344.0);
  EXPECT_EQ(max_value(DType::kE2m1), 6.0);
  EXPECT_EQ(max_value(DType::kE8m0), 0x1p127);
  EXPECT_EQ(max_value(DType::kF16), 65504.0);
  EXPECT_EQ(max_value(DType::kF32), static_cast<double>(std::numeric_limits<float>::max()));
  EXPECT_EQ(min_positive(DType::kF32), static_cast<double>(std::numeric_limits<float>::denorm_min()));
  EXPECT_EQ(min_normal(DType::kF16), 0x1p-14);
  EXPECT_EQ(ulp(DType::kBf16, 1.0), 0x1p-7);
  EXPECT_EQ(ulp(DType::kE4m3fn, 448.0), 32.0);
  EXPECT_EQ(ulp(DType::kF16, 0.0), 0x1p-24);
}

}  // namespace
}  // namespace ridge::numerics
