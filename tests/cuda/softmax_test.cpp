// What is particular to softmax on a GPU: rows that are no distribution, masked columns over the parts of blocks, and
// numbers that are far apart; in every form of the kernel.
#include "ridge/ops/softmax.h"
#include "cuda/gpu_operands.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "device/cuda/buffer.h"
#include "device/cuda/device.h"
#include "device/cuda/stream.h"

namespace ridge::testing {
namespace {

namespace gpu = device::cuda;

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// A call in f32: its operands on the host, and copies of them on the device.
struct Rows {
  std::int64_t rows, cols;
  std::vector<float> x, y, lse;

  Rows(std::int64_t count, std::int64_t length) : rows(count), cols(length) {
    std::mt19937 generator(7);
    std::normal_distribution<float> normal(0, 3);
    for (std::int64_t i = 0; i < count * length; ++i) x.push_back(normal(generator));
    y.assign(x.size(), -1);
    lse.assign(static_cast<std::size_t>(count), -1);
  }
  static float& at(std::vector<float>& values, std::int64_t cols, std::int64_t row, std::int64_t column) {
    return values[static_cast<std::size_t>(row * cols + column)];
  }
  float& number(std::int64_t row, std::int64_t column) { return at(x, cols, row, column); }
  float& result(std::int64_t row, std::int64_t column) { return at(y, cols, row, column); }

  void run(SoftmaxForm form) {
    const auto stream = gpu::Stream::create(the_device());
    ASSERT_TRUE(stream);
    std::vector<float>& out = form == SoftmaxForm::kLogSumExp ? lse : y;
    const std::size_t bytes = x.size() * sizeof(float), out_bytes = out.size() * sizeof(float);
    auto from = gpu::Buffer::allocate(the_device(), bytes), to = gpu::Buffer::allocate(the_device(), out_bytes);
    ASSERT_TRUE(from && to);
    ASSERT_TRUE(gpu::copy_to_device(from->data(), x.data(), bytes, stream->handle()));
    SoftmaxArgs args;
    args.x = TensorView::contiguous(from->data(), DType::kF32, {rows, cols});
    args.form = form;
    if (form == SoftmaxForm::kLogSumExp) {
      args.lse = TensorView::contiguous(to->data(), DType::kF32, {rows});
    } else {
      args.y = TensorView::contiguous(to->data(), DType::kF32, {rows, cols});
    }
    const Status status = softmax(args, stream->view());
    ASSERT_TRUE(status) << status.error().text();
    ASSERT_TRUE(gpu::copy_to_host(out.data(), to->data(), out_bytes, stream->handle()));
    ASSERT_TRUE(stream->synchronize());
  }
};

// A part of a warp, a warp, one block, two and eight blocks, a row that is read twice, rows of odd length.
constexpr std::int64_t kLengths[] = {16, 64, 500, 8000, 16000, 60000, 70000, 8001};

class CudaSoftmax : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Lengths, CudaSoftmax, ::testing::ValuesIn(kLengths));

TEST_P(CudaSoftmax, ARowThatIsNoDistributionIsNanAndTheOthersKeepTheirValues) {
  for (const SoftmaxForm form : {SoftmaxForm::kSoftmax, SoftmaxForm::kLogSoftmax}) {
    Rows rows(9, GetParam()), plain(9, GetParam());
    rows.number(1, GetParam() / 2) = kInf;
    rows.number(4, GetParam() - 1) = kNan;
    for (std::int64_t j = 0; j < GetParam(); ++j) rows.number(8, j) = -kInf;
    rows.run(form);
    plain.run(form);
    for (std::int64_t row = 0; row < 9; ++row) {
      const bool broken = row == 1 || row == 4 || row == 8;
      for (std::int64_t j = 0; j < GetParam(); ++j) {
        if (broken) {
          ASSERT_TRUE(std::isnan(rows.result(row, j))) << row << ", " << j;
        } else {
          ASSERT_EQ(rows.result(row, j), plain.result(row, j)) << row << ", " << j;
        }
      }
    }
  }
}

TEST_P(CudaSoftmax, TheSumOfARowThatIsNoDistributionIsWhatItsNumbersAddUpTo) {
  Rows rows(7, GetParam());
  const std::int64_t last = GetParam() - 1;
  rows.number(1, last) = kInf;
  rows.number(2, last) = kNan;
  rows.number(3, 1) = kInf, rows.number(3, last) = kNan;
  rows.number(4, 1) = kInf, rows.number(4, last) = -kInf;
  for (std::int64_t j = 0; j < GetParam(); ++j) rows.number(5, j) = -kInf;
  for (std::int64_t j = 0; j < GetParam(); ++j) rows.number(6, j) = j == 9 ? kNan : -kInf;
  rows.run(SoftmaxForm::kLogSumExp);
  EXPECT_TRUE(std::isfinite(rows.lse[0]));
  EXPECT_EQ(rows.lse[1], kInf);
  EXPECT_TRUE(std::isnan(rows.lse[2]) && std::isnan(rows.lse[3]));
  EXPECT_EQ(rows.lse[4], kInf);
  EXPECT_EQ(rows.lse[5], -kInf);
  EXPECT_TRUE(std::isnan(rows.lse[6]));
}

// All columns but two, so that most warps and blocks find nothing; the two are ln 2 apart in one row and 6e38 in
// another.
TEST_P(CudaSoftmax, MaskedColumnsHaveNoShare) {
  Rows rows(2, GetParam());
  const std::int64_t last = GetParam() - 1;
  for (float& one : rows.x) one = -kInf;
  rows.number(0, 2) = 1, rows.number(0, last) = 1 + std::log(2.0F);
  rows.number(1, 2) = -3e38F, rows.number(1, last) = 3e38F;
  rows.run(SoftmaxForm::kSoftmax);
  for (std::int64_t j = 0; j < GetParam(); ++j) {
    EXPECT_NEAR(rows.result(0, j), j == 2 ? 1.0 / 3 : j == last ? 2.0 / 3 : 0, 1e-6);
    EXPECT_EQ(rows.result(1, j), j == last ? 1 : 0);
  }
  rows.run(SoftmaxForm::kLogSoftmax);
  EXPECT_EQ(rows.result(0, 3), -kInf);
  EXPECT_NEAR(rows.result(0, 2), std::log(1.0 / 3), 1e-6);
  rows.run(SoftmaxForm::kLogSumExp);
  EXPECT_NEAR(rows.lse[0], 1 + std::log(3.0), 1e-6);
  EXPECT_EQ(rows.lse[1], 3e38F);
}

}  // namespace
}  // namespace ridge::testing
