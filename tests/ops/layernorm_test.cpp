// What is particular to layernorm: means that are large beside the deviation, rows that begin far from their mean, and
// what the arguments' check says. Values are compared with sums in long double that share no code with the row model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ridge/ops/layernorm.h"
#include "ridge/ops/layernorm_backward.h"

namespace ridge::testing {
namespace {

using ::testing::HasSubstr;

TensorView matrix(std::vector<float>& data, std::int64_t rows) {
  return TensorView::contiguous(data.data(), DType::kF32, {rows, static_cast<std::int64_t>(data.size()) / rows});
}
TensorView vector(std::vector<float>& data) {
  return TensorView::contiguous(data.data(), DType::kF32, {static_cast<std::int64_t>(data.size())});
}

// The largest distance from the definition in long double, of one row without a weight.
double worst_error(std::vector<float>& x) {
  std::vector<float> y(x.size()), mean(1), rstd(1);
  LayernormArgs args;
  args.x = matrix(x, 1), args.y = matrix(y, 1), args.mean = vector(mean), args.rstd = vector(rstd);
  const Status status = layernorm(args, Stream::cpu(1));
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().text());
  const auto length = static_cast<long double>(x.size());
  long double sum = 0, squares = 0;
  for (const float one : x) sum += one;
  const long double middle = sum / length;
  for (const float one : x) squares += (one - middle) * (one - middle);
  const long double factor = 1 / std::sqrt(squares / length + 1e-5F);
  EXPECT_NEAR(mean[0], static_cast<double>(middle), static_cast<double>(1e-7L * (std::fabs(middle) + 1 / factor)))
      << x.size();
  EXPECT_NEAR(rstd[0], static_cast<double>(factor), 1e-6 * static_cast<double>(factor)) << x.size();
  double worst = 0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    worst = std::max(worst, static_cast<double>(std::fabs(y[j] - (x[j] - middle) * factor)));
  }
  return worst;
}

std::vector<float> normal_row(std::size_t size, float mean, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> row(size);
  for (float& one : row) one = mean + normal(random);
  return row;
}

// Sums of the numbers and of their squares in fp32 would be wrong from the first digit on: both are of the size 10^8.
TEST(Layernorm, AMeanOfTenThousandDeviationsCostsNoDigits) {
  for (const std::size_t size : {2u, 63u, 64u, 1000u, 4096u, 65536u}) {
    std::vector<float> row = normal_row(size, 1e4F, 7);
    EXPECT_LT(worst_error(row), 5e-6) << size;  // of up to 4.5, and 3.5e-6 measured for the longest
  }
}

TEST(Layernorm, ARowThatBeginsFarFromItsMeanIsRight) {
  for (const std::size_t far : {1u, 40u, 64u, 200u}) {
    std::vector<float> row = normal_row(16384, 0, 11);
    for (std::size_t j = 0; j < far; ++j) row[j] += 1e3F;
    EXPECT_LT(worst_error(row), 2e-5) << far;
  }
}

TEST(Layernorm, ARowOfEqualNumbersIsTheBias) {
  for (const float value : {0.1F, -3e4F, 1e-30F}) {
    std::vector<float> x(999, value), y(999), bias = normal_row(999, 0, 3);
    LayernormArgs args;
    args.x = matrix(x, 1), args.y = matrix(y, 1), args.bias = vector(bias), args.eps = 1e-12;
    ASSERT_TRUE(layernorm(args, Stream::cpu(1)).ok());
    EXPECT_EQ(y, bias) << value;
  }
}

TEST(Layernorm, AMistakeNamesTheValuesAndTheWayOut) {
  std::vector<float> x(12), y(12), weight(4), mean(3), rstd(3);
  LayernormArgs args;
  args.x = matrix(x, 3), args.y = matrix(y, 3), args.rstd = vector(rstd);
  const auto message = [&] {
    const Status status = layernorm(args, Stream::cpu(1));
    return status.ok() ? std::string("no error") : status.error().text();
  };
  EXPECT_THAT(message(), HasSubstr("rstd is given without mean"));
  args.mean = vector(mean), args.eps = -1;
  EXPECT_THAT(message(), HasSubstr("an eps of -1 is not possible"));
  args.eps = 1e-5, args.zero_centred = true;
  EXPECT_THAT(message(), HasSubstr("there is none"));
  args.weight = vector(weight), args.y = args.x;
  EXPECT_THAT(message(), HasSubstr("x"));
  LayernormBackwardArgs backward;
  backward.dy = matrix(y, 3), backward.x = matrix(x, 3), backward.mean = vector(mean), backward.rstd = vector(rstd);
  const Status status = layernorm_backward(backward, Stream::cpu(1));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().text(), HasSubstr("none of dx, dweight and dbias is given"));
}

}  // namespace
}  // namespace ridge::testing
