// What is particular to softmax: rows that are no distribution, masked columns, numbers that are far apart, a negative
// scale, gradients beside differences of the forward call, and what the check after every launch catches.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dispatch/launch.h"
#include "ops/harness.h"
#include "record/case.h"
#include "ridge/ops/softmax.h"
#include "ridge/ops/softmax_backward.h"

namespace ridge::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr SoftmaxForm kForms[] = {SoftmaxForm::kSoftmax, SoftmaxForm::kLogSoftmax, SoftmaxForm::kLogSumExp};

const ops::Operator& operator_named(const std::string& name) { return **ops::find_operator(name); }

// A call in f32 with memory of its own.
struct Rows {
  std::int64_t rows, cols;
  std::vector<float> x, y, lse;
  double scale = 1;

  Rows(std::int64_t count, std::int64_t length, unsigned seed) : rows(count), cols(length) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0, 3);
    for (std::int64_t i = 0; i < count * length; ++i) x.push_back(normal(generator));
    y.assign(x.size(), -1);
    lse.assign(static_cast<std::size_t>(count), -1);
  }
  [[nodiscard]] TensorView matrix(std::vector<float>& values) const {
    return TensorView::contiguous(values.data(), DType::kF32, {rows, cols});
  }
  [[nodiscard]] TensorView vector(std::vector<float>& values) const {
    return TensorView::contiguous(values.data(), DType::kF32, {rows});
  }
  SoftmaxArgs args(SoftmaxForm form) {
    SoftmaxArgs call;
    call.x = matrix(x);
    if (form == SoftmaxForm::kLogSumExp) {
      call.lse = vector(lse);
    } else {
      call.y = matrix(y);
    }
    call.form = form;
    call.scale = scale;
    return call;
  }
  void run(SoftmaxForm form, int threads = 1) {
    const Status status = softmax(args(form), Stream::cpu(threads));
    ASSERT_TRUE(status.ok()) << status.error().text();
  }
  float& at(std::vector<float>& values, std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * cols + column)];
  }
};

TEST(Softmax, ARowThatIsNoDistributionIsNanAndTheOthersKeepTheirValues) {
  for (const SoftmaxForm form : {SoftmaxForm::kSoftmax, SoftmaxForm::kLogSoftmax}) {
    for (const float special : {kInf, kNan, -kInf}) {
      Rows rows(3, 5000, 3), plain(3, 5000, 3);
      if (special == -kInf) {
        for (std::int64_t j = 0; j < 5000; ++j) rows.at(rows.x, 1, j) = special;
      } else {
        rows.at(rows.x, 1, 4100) = special;
      }
      rows.run(form, 2);
      plain.run(form);
      for (std::int64_t j = 0; j < 5000; ++j) {
        ASSERT_TRUE(std::isnan(rows.at(rows.y, 1, j))) << special << ", " << j;
        ASSERT_EQ(rows.at(rows.y, 0, j), plain.at(plain.y, 0, j));
        ASSERT_EQ(rows.at(rows.y, 2, j), plain.at(plain.y, 2, j));
      }
    }
  }
}

TEST(Softmax, TheSumOfARowThatIsNoDistributionIsWhatItsNumbersAddUpTo) {
  Rows rows(7, 5000, 4);
  rows.at(rows.x, 1, 4100) = kInf;
  rows.at(rows.x, 2, 4100) = kNan;
  rows.at(rows.x, 3, 10) = kInf, rows.at(rows.x, 3, 4100) = kNan;
  rows.at(rows.x, 4, 10) = kInf, rows.at(rows.x, 4, 4100) = -kInf;
  for (std::int64_t j = 0; j < 5000; ++j) rows.at(rows.x, 5, j) = -kInf;
  for (std::int64_t j = 0; j < 5000; ++j) rows.at(rows.x, 6, j) = j == 9 ? kNan : -kInf;
  rows.run(SoftmaxForm::kLogSumExp, 3);
  EXPECT_TRUE(std::isfinite(rows.lse[0]));
  EXPECT_EQ(rows.lse[1], kInf);
  EXPECT_TRUE(std::isnan(rows.lse[2]) && std::isnan(rows.lse[3]));
  EXPECT_EQ(rows.lse[4], kInf);
  EXPECT_EQ(rows.lse[5], -kInf);
  EXPECT_TRUE(std::isnan(rows.lse[6]));
}

TEST(Softmax, MaskedColumnsHaveNoShareAndChangeNothing) {
  Rows masked(2, 6000, 5), rest(2, 2000, 5);
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t j = 0; j < 6000; ++j) {
      masked.at(masked.x, row, j) = j >= 1000 && j < 5000 ? -kInf : rest.at(rest.x, row, j < 1000 ? j : j - 4000);
    }
  }
  for (const SoftmaxForm form : kForms) {
    masked.run(form);
    rest.run(form);
    for (std::int64_t row = 0; row < 2; ++row) {
      const auto at = static_cast<std::size_t>(row);
      if (form == SoftmaxForm::kLogSumExp) {
        EXPECT_NEAR(masked.lse[at], rest.lse[at], 1e-6);
        continue;
      }
      for (std::int64_t j = 1000; j < 5000; ++j) {
        ASSERT_EQ(masked.at(masked.y, row, j), form == SoftmaxForm::kSoftmax ? 0 : -kInf) << j;
      }
      EXPECT_NEAR(masked.at(masked.y, row, 5003), rest.at(rest.y, row, 1003), 2e-6);
    }
  }
}

// Differences that fp32 cannot hold leave a share of 0 and no NaN; a row of equal numbers is even.
TEST(Softmax, NumbersThatAreFarApartAreNoProblem) {
  Rows rows(2, 4, 6);
  rows.x = {3e38F, -3e38F, 0, 3e38F, 7e37F, 7e37F, 7e37F, 7e37F};
  rows.run(SoftmaxForm::kSoftmax);
  EXPECT_EQ(rows.y, (std::vector<float>{0.5F, 0, 0, 0.5F, 0.25F, 0.25F, 0.25F, 0.25F}));
  rows.run(SoftmaxForm::kLogSumExp);
  EXPECT_EQ(rows.lse[0], 3e38F);
}

TEST(Softmax, ANegativeScaleTurnsTheOrderRound) {
  Rows rows(3, 3000, 7), turned(3, 3000, 7);
  rows.scale = -0.5;
  for (float& one : turned.x) one *= -0.5F;
  for (const SoftmaxForm form : kForms) {
    rows.run(form);
    turned.run(form);
    EXPECT_EQ(rows.y, turned.y);
    EXPECT_EQ(rows.lse, turned.lse);
  }
}

// The gradient of sum(w out) beside central differences of the forward call, in fp32: to some parts of a thousand.
TEST(Softmax, GradientsAreThoseOfDifferences) {
  for (const SoftmaxForm form : kForms) {
    Rows rows(2, 40, 8);
    rows.scale = 0.7;
    std::mt19937 generator(9);
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> weights(80), dx(80, -1);
    for (float& one : weights) one = normal(generator);
    const bool sums = form == SoftmaxForm::kLogSumExp;
    const auto value = [&](std::int64_t row) {
      rows.run(form);
      double total = 0;
      for (std::int64_t j = 0; !sums && j < 40; ++j) total += rows.at(rows.y, row, j) * rows.at(weights, row, j);
      return sums ? rows.lse[static_cast<std::size_t>(row)] * weights[static_cast<std::size_t>(row)] : total;
    };
    rows.run(form);
    std::vector<float> y = rows.y, lse = rows.lse, dsum(weights.begin(), weights.begin() + 2);
    SoftmaxBackwardArgs back;
    back.dy = sums ? rows.vector(dsum) : rows.matrix(weights);
    if (sums) back.x = rows.matrix(rows.x), back.lse = rows.vector(lse);
    if (!sums) back.y = rows.matrix(y);
    back.dx = rows.matrix(dx);
    back.form = form;
    back.scale = rows.scale;
    const Status status = softmax_backward(back, Stream::cpu(2));
    ASSERT_TRUE(status.ok()) << status.error().text();
    for (std::int64_t row = 0; row < 2; ++row) {
      for (std::int64_t j = 0; j < 40; ++j) {
        float& x = rows.at(rows.x, row, j);
        const float kept = x;
        x = kept + 0.03125F;
        const double above = value(row);
        x = kept - 0.03125F;
        const double below = value(row);
        x = kept;
        ASSERT_NEAR(rows.at(dx, row, j), (above - below) / 0.0625, 2e-3) << row << ", " << j;
      }
    }
  }
}

// Another scale, a form beside another, a sum over the wrong row.
TEST(Softmax, TheCheckAfterEveryLaunchCatchesAnotherScaleAndAnotherForm) {
  for (const std::string name : {"softmax", "softmax_backward"}) {
    const ops::Operator& op = operator_named(name);
    for (const char* form : {"softmax", "log_softmax", "logsumexp"}) {
      const auto bound = [&](const char* as) {
        return *op.bind(*record::parse_case(name + " rows=40 cols=300 dtype=bf16 out=f32 form=" + as));
      };
      const ops::Problem problem = bound(form);
      const std::vector<record::Scalar> right = {record::Scalar::f32(0.5F)};
      const auto residual = [&](const ops::Problem& ran, float scale) {
        Operands operands = make_operands(problem, kPacked, 21);
        EXPECT_TRUE(op.implementations.back()
                        .run(ran, {operands.views(), std::vector{record::Scalar::f32(scale)}}, Stream::cpu())
                        .ok());
        const auto found = op.spot_check(problem, {operands.views(), right}, 5);
        EXPECT_TRUE(found.ok());
        return found->residual / found->allowed;
      };
      EXPECT_LE(residual(problem, 0.5F), 1) << name << form;
      EXPECT_GT(residual(problem, 0.501F), 1) << name << form;
      if (std::string(form) == "logsumexp") continue;
      EXPECT_GT(residual(bound(std::string(form) == "softmax" ? "log_softmax" : "softmax"), 0.5F), 1) << name << form;
    }
  }
}

TEST(Softmax, SaysWhatIsWrongWithACall) {
  const auto refused = [](const SoftmaxArgs& args) {
    const Status status = softmax(args, Stream::cpu());
    return status.ok() ? std::string("no error") : status.error().text();
  };
  Rows rows(4, 8, 1);
  SoftmaxArgs args = rows.args(SoftmaxForm::kSoftmax);
  args.scale = std::nan("");
  EXPECT_EQ(refused(args), "softmax: a scale of nan is not possible (give a finite number)");
  args = rows.args(SoftmaxForm::kSoftmax);
  args.form = SoftmaxForm::kLogSumExp;
  EXPECT_EQ(refused(args),
            "softmax: the output of its form is not given (give lse alone for logsumexp, and y alone for the other "
            "forms)");
  args.lse = rows.vector(rows.lse);
  EXPECT_NE(refused(args).find("the output of another form is given, too"), std::string::npos);
  args = rows.args(SoftmaxForm::kSoftmax);
  args.y = args.x;
  EXPECT_NE(refused(args).find("overlap"), std::string::npos) << refused(args);
  args = rows.args(SoftmaxForm::kSoftmax);
  args.y.dtype = DType::kBf16;
  EXPECT_EQ(refused(args), "softmax: y is bf16 and x f32 (give y of x's dtype, or of f32)");
  args = rows.args(SoftmaxForm::kSoftmax);
  args.x.shape[1] = args.y.shape[1] = 0;
  EXPECT_NE(refused(args).find("at least one"), std::string::npos) << refused(args);

  SoftmaxBackwardArgs back;
  back.dy = back.y = rows.matrix(rows.y);
  back.x = back.dx = rows.matrix(rows.x);
  const Status status = softmax_backward(back, Stream::cpu());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().text(),
            "softmax_backward: y is given, x is, lse is not (give x and lse for logsumexp, and y alone for the other "
            "forms)");
}

TEST(Softmax, ACaseSaysWhichOutputsThereAre) {
  const auto error_of = [](const char* text) {
    const auto problem = operator_named("softmax").bind(*record::parse_case(text));
    return problem.ok() ? std::string("no error") : problem.error().text();
  };
  EXPECT_NE(error_of("softmax form=logsumexp out=bf16").find("logsumexp is written in f32"), std::string::npos);
  EXPECT_NE(error_of("softmax dtype=f32 out=f16").find("y is f16 and x f32"), std::string::npos);
  EXPECT_EQ(operator_named("softmax").bind(*record::parse_case("softmax dtype=f16"))->operands[1].dtype, DType::kF16);
  EXPECT_EQ(operator_named("softmax").bind(*record::parse_case("softmax form=logsumexp"))->operands[1].name, "lse");
}

}  // namespace
}  // namespace ridge::testing
