#include "record/param.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "record/case.h"
#include "record/json.h"
#include "record/worker.h"

namespace ridge::record {
namespace {

using ::testing::HasSubstr;

std::string error_of(const ParamInfo& param, const std::string& text) {
  const auto value = parse_value("op", param, text);
  return value ? "none" : value.error().text();
}

const ParamInfo kSize{"n", "16", "elements", {}};
const ParamInfo kWord{"dtype", "f32", "of x", {"f32", "bf16"}};
const ParamInfo kEps = real_param("eps", "1e-5", "added to the mean", 0, 1);
const ParamInfo kCausal = flag_param("causal", "leaves out later keys");

TEST(Param, ItsKindFollowsFromItsValuesOrIsGiven) {
  EXPECT_EQ(kSize.kind, ParamKind::kWhole);
  EXPECT_EQ(kWord.kind, ParamKind::kEnumerated);
  EXPECT_EQ(kEps.kind, ParamKind::kReal);
  EXPECT_EQ(kCausal.kind, ParamKind::kFlag);
}

TEST(Param, EveryKindIsReadAndWritten) {
  EXPECT_EQ(*parse_value("op", kSize, "1099511627776"), std::int64_t{1} << 40);
  EXPECT_EQ(*parse_value("op", kWord, "bf16"), 1);
  EXPECT_EQ(*parse_value("op", kCausal, "1"), 1);
  EXPECT_EQ(real_of_bits(*parse_value("op", kEps, "1e-5")), 1e-5);
  EXPECT_EQ(value_text(kSize, 7), "7");
  EXPECT_EQ(value_text(kWord, 1), "bf16");
  EXPECT_EQ(value_text(kCausal, 0), "0");
  EXPECT_EQ(value_text(kEps, bits_of_real(1e-5)), "1e-05");
}

TEST(Param, ErrorsNameTheValueAndWhatIsAllowed) {
  EXPECT_EQ(error_of(kSize, "2.5"), "op: n=2.5 is not a non-negative integer (write for instance n=16)");
  EXPECT_THAT(error_of(kSize, "1099511627777"), HasSubstr("is more than 1099511627776, the largest size"));
  EXPECT_EQ(error_of(kWord, "f16"), "op: dtype=f16 is not possible (dtype is one of f32, bf16)");
  EXPECT_EQ(error_of(kCausal, "2"), "op: causal=2 is not possible (causal is one of 0, 1)");
  EXPECT_EQ(error_of(kEps, "-1e-9"), "op: eps=-1e-9 is not possible (eps is a number from 0 to 1)");
  for (const char* text : {"", "x", "1e-5x", "nan", "inf", "-inf", "1e999", " 1", "1,5", "0x1p-4"}) {
    EXPECT_THAT(error_of(kEps, text), HasSubstr("is not a finite number (write for instance eps=1e-5)")) << text;
  }
}

// Everything that is kept by a case must find it again by its text: every bit survives, in text and in JSON.
TEST(Param, RealNumbersKeepEveryBitThroughTextAndJson) {
  const double largest = std::numeric_limits<double>::max();
  const ParamInfo any = real_param("x", "0", "any", -largest, largest);
  std::vector<double> numbers = {0.0,     -0.0,      0.1, 1.0 / 3, 1e-5,   1e300,    -largest,
                                 largest, 0x1p-1074, 3.0, 1e22,    5e-324, 0.1 + 0.2};
  std::uint64_t state = 1;
  for (int i = 0; i < 2000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double drawn = std::bit_cast<double>(state);
    if (std::isfinite(drawn)) numbers.push_back(drawn);
  }
  for (const double number : numbers) {
    const std::int64_t bits = bits_of_real(number);
    Case one;
    one.op = "op";
    one.set("x", value_text(any, bits));
    const auto line = parse_case(one.text());
    ASSERT_TRUE(line) << one.text();
    WorkerRequest request;
    request.cases = {*line};
    const auto json = parse_record<WorkerRequest>(to_line(request));
    ASSERT_TRUE(json) << one.text();
    const auto value = parse_value("op", any, json->cases[0].get("x"));
    ASSERT_TRUE(value) << one.text();
    EXPECT_EQ(*value, bits) << one.text();
  }
}

TEST(Param, GoesThroughJsonWithItsKindAndRange) {
  WorkerResponse response;
  response.operators = {{"op", "", {kSize, kWord, kEps, kCausal}, {}, {}, {{"scale", "", "0.125", ScalarType::kF64}}}};
  const auto read = parse_record<WorkerResponse>(to_line(response));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->operators[0].scalars.at(0).usual, "0.125");
  for (std::size_t i = 0; i < 4; ++i) {
    const ParamInfo &param = response.operators[0].params[i], &same = read->operators[0].params[i];
    EXPECT_EQ(same.kind, param.kind);
    EXPECT_EQ(same.values, param.values);
    EXPECT_EQ(same.most, param.most);
  }
}

TEST(Scalar, HoldsWhatItIsGiven) {
  EXPECT_EQ(Scalar::f32(0.1f).real(), static_cast<double>(0.1f));
  EXPECT_EQ(Scalar::f64(-1e-300).real(), -1e-300);
  EXPECT_EQ(Scalar::i64(-5).whole(), -5);
  EXPECT_EQ(Scalar::u64(~0ull).bits, ~0ull);
  EXPECT_EQ(Scalar::f32(0.1f).text(), "0.1");
  EXPECT_EQ(Scalar::u64(~0ull).text(), "18446744073709551615");
  EXPECT_NE(Scalar::f32(0), Scalar::f64(0));
}

TEST(Scalar, DrawnOnesStayInTheirRangeAndMeetItsEndsAndTheUsualValue) {
  const ScalarInfo eps{"eps", "", Scalar::f32(0.25f), -1, 2}, step{"step", "", Scalar::i64(3), -4, 9};
  bool least = false, most = false, usual = false, between = false;
  for (std::uint64_t random = 0; random < 4000; ++random) {
    const double x = draw(eps, random * 0x9e3779b97f4a7c15u).real();
    EXPECT_TRUE(x >= -1 && x <= 2) << x;
    least = least || x == -1;
    most = most || x == 2;
    usual = usual || x == 0.25;
    between = between || (x > -1 && x < 2 && x != 0.25);
    const std::int64_t whole = draw(step, random * 0x9e3779b97f4a7c15u).whole();
    EXPECT_TRUE(whole >= -4 && whole <= 9) << whole;
  }
  EXPECT_TRUE(least && most && usual && between);
}

}  // namespace
}  // namespace ridge::record
