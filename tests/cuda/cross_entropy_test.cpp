// What is particular to cross_entropy on a GPU: targets that are no column, rows that are no distribution, masked
// vocabulary over the parts of blocks, ignored rows, and gradients in place; in every form of the kernel.
#include "ridge/ops/cross_entropy.h"
#include "cuda/gpu_operands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "device/cuda/buffer.h"
#include "device/cuda/device.h"
#include "device/cuda/stream.h"
#include "ridge/ops/cross_entropy_backward.h"

namespace ridge::testing {
namespace {

namespace gpu = device::cuda;

constexpr float kInf = std::numeric_limits<float>::infinity();

// A call in f32: its operands on the host, and copies of them on the device.
struct Batch {
  std::int64_t tokens, columns;
  std::vector<float> logits, loss, lse, dlogits;
  std::vector<std::int64_t> targets;
  CrossEntropySettings settings;
  bool in_place = false;

  Batch(std::int64_t rows, std::int64_t cols) : tokens(rows), columns(cols) {
    std::mt19937 generator(7);
    std::normal_distribution<float> normal(0, 3);
    for (std::int64_t i = 0; i < rows * cols; ++i) logits.push_back(normal(generator));
    for (std::int64_t i = 0; i < rows; ++i) {
      targets.push_back(static_cast<std::int64_t>(generator() % static_cast<unsigned>(cols)));
    }
    loss.assign(static_cast<std::size_t>(rows), -1);
    lse = loss;
    dlogits.assign(logits.size(), -1);
  }
  float& logit(std::int64_t row, std::int64_t column) {
    return logits[static_cast<std::size_t>(row * columns + column)];
  }
  [[nodiscard]] float gradient(std::int64_t row, std::int64_t column) const {
    return dlogits[static_cast<std::size_t>(row * columns + column)];
  }

  // Loss, lse and gradient, or the gradient by backward from the lse of before.
  void run(bool backward = false) {
    const auto stream = gpu::Stream::create(the_device());
    ASSERT_TRUE(stream);
    std::vector<gpu::Buffer> memory;
    const auto upload = [&](const auto& values) -> void* {
      const std::size_t bytes = values.size() * sizeof(values[0]);
      auto buffer = gpu::Buffer::allocate(the_device(), bytes);
      EXPECT_TRUE(buffer);
      memory.push_back(std::move(*buffer));
      EXPECT_TRUE(gpu::copy_to_device(memory.back().data(), values.data(), bytes, stream->handle()));
      return memory.back().data();
    };
    const auto download = [&](std::vector<float>& values, const TensorView& view) {
      EXPECT_TRUE(gpu::copy_to_host(values.data(), view.data, values.size() * sizeof(float), stream->handle()));
    };
    CrossEntropyArgs args;
    args.logits = TensorView::contiguous(upload(logits), DType::kF32, {tokens, columns});
    args.targets = TensorView::contiguous(upload(targets), DType::kI64, {tokens});
    args.loss = TensorView::contiguous(upload(loss), DType::kF32, {tokens});
    args.lse = TensorView::contiguous(upload(lse), DType::kF32, {tokens});
    args.dlogits = args.logits;
    if (!in_place) args.dlogits.data = upload(dlogits);
    args.settings = settings;
    if (backward) {
      const std::vector<float> ones(static_cast<std::size_t>(tokens), 1);
      CrossEntropyBackwardArgs of_gradient{TensorView::contiguous(upload(ones), DType::kF32, {tokens}),
                                           args.logits,
                                           args.targets,
                                           args.lse,
                                           args.dlogits,
                                           settings};
      const Status status = cross_entropy_backward(of_gradient, stream->view());
      ASSERT_TRUE(status) << status.error().text();
    } else {
      const Status status = cross_entropy(args, stream->view());
      ASSERT_TRUE(status) << status.error().text();
      download(loss, args.loss);
      download(lse, args.lse);
    }
    download(dlogits, args.dlogits);
    ASSERT_TRUE(stream->synchronize());
  }
};

// One warp, one block, two and eight blocks that keep a row, one that is read twice, rows of odd length.
constexpr std::int64_t kForms[] = {1000, 9000, 30000, 130000, 170000, 9001};

class CudaCrossEntropy : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Forms, CudaCrossEntropy, ::testing::ValuesIn(kForms));

TEST_P(CudaCrossEntropy, ATargetThatIsNoColumnMakesItsRowNanAndReadsNothing) {
  Batch plain(9, GetParam()), batch(9, GetParam());
  const std::vector<std::pair<std::size_t, std::int64_t>> wrong = {
      {0, -1}, {3, GetParam()}, {4, std::int64_t{1} << 62}, {8, -(std::int64_t{1} << 62)}};
  for (const auto& [row, target] : wrong) batch.targets[row] = target;
  plain.run();
  batch.run();
  const auto check = [&] {
    for (std::int64_t row = 0; row < 9; ++row) {
      const auto at = static_cast<std::size_t>(row);
      const bool is_wrong = std::ranges::any_of(wrong, [&](const auto& one) { return one.first == at; });
      ASSERT_EQ(std::isnan(batch.loss[at]) && std::isnan(batch.lse[at]), is_wrong) << row;
      for (std::int64_t j = 0; j < GetParam(); ++j) {
        ASSERT_EQ(std::isnan(batch.gradient(row, j)), is_wrong) << row << ", " << j;
        ASSERT_TRUE(is_wrong || batch.gradient(row, j) == plain.gradient(row, j)) << row << ", " << j;
      }
    }
  };
  check();
  plain.run(true);
  batch.run(true);
  check();
}

TEST_P(CudaCrossEntropy, AnIgnoredRowIsZeroWhateverItHolds) {
  for (const bool backward : {false, true}) {
    Batch batch(7, GetParam());
    batch.settings.ignore_index = 5;
    for (const std::size_t row : {0, 1, 6}) {
      batch.targets[row] = 5;
      batch.lse[row] = std::nanf("");
      for (std::int64_t j = 0; j < GetParam(); ++j) batch.logit(static_cast<std::int64_t>(row), j) = std::nanf("");
    }
    batch.run(backward);
    for (const std::int64_t row : {0, 1, 6}) {
      for (std::int64_t j = 0; j < GetParam(); ++j) ASSERT_EQ(batch.gradient(row, j), 0) << row << ", " << j;
      if (backward) continue;
      EXPECT_EQ(batch.loss[static_cast<std::size_t>(row)], 0);
      EXPECT_EQ(batch.lse[static_cast<std::size_t>(row)], 0);
    }
    EXPECT_NE(batch.gradient(3, 3), 0);
  }
}

TEST_P(CudaCrossEntropy, ARowThatIsNoDistributionIsNanAndTheOthersKeepTheirValues) {
  for (const float special : {kInf, std::nanf(""), -kInf}) {
    Batch plain(3, GetParam()), batch(3, GetParam());
    for (std::int64_t j = special == -kInf ? 0 : GetParam() - 1; j < GetParam(); ++j) batch.logit(1, j) = special;
    plain.run();
    batch.run();
    EXPECT_TRUE(std::isnan(batch.loss[1]) && std::isnan(batch.lse[1])) << special;
    EXPECT_EQ(batch.loss[0], plain.loss[0]);
    for (std::int64_t j = 0; j < GetParam(); ++j) {
      ASSERT_TRUE(std::isnan(batch.gradient(1, j))) << special << ", " << j;
      ASSERT_EQ(batch.gradient(0, j), plain.gradient(0, j));
      ASSERT_EQ(batch.gradient(2, j), plain.gradient(2, j));
    }
  }
}

// Whole parts of warps and of blocks are masked, so that some find nothing.
TEST_P(CudaCrossEntropy, AMaskedVocabularyHasNoProbabilityAndNoGradient) {
  Batch batch(2, GetParam());
  const std::int64_t first = 40, last = GetParam() - 40;
  double sum = 0;
  for (std::int64_t j = 0; j < GetParam(); ++j) {
    if (j >= first && j < last) batch.logit(1, j) = -kInf;
    sum += std::exp(static_cast<double>(batch.logit(1, j)));
  }
  batch.targets[1] = 7;
  batch.run();
  EXPECT_NEAR(batch.lse[1], std::log(sum), 1e-5);
  EXPECT_NEAR(batch.loss[1], std::log(sum) - batch.logit(1, 7), 1e-5);
  for (std::int64_t j = first; j < last; ++j) ASSERT_EQ(batch.gradient(1, j), 0) << j;
  EXPECT_NEAR(batch.gradient(1, 9), std::exp(batch.logit(1, 9)) / sum, 1e-6);
  batch.targets[1] = first;  // a target that has no probability
  batch.run();
  EXPECT_EQ(batch.loss[1], kInf);
  EXPECT_EQ(batch.gradient(1, first), -1);
  EXPECT_TRUE(std::isfinite(batch.loss[0]));
}

TEST_P(CudaCrossEntropy, InPlaceGivesTheSameBits) {
  for (const bool backward : {false, true}) {
    Batch beside(GetParam() > 100000 ? 40 : 300, GetParam()), in_place = beside;
    for (Batch* one : {&beside, &in_place}) one->targets[2] = one->settings.ignore_index;
    in_place.in_place = true;
    beside.run();
    in_place.lse = beside.lse;
    if (backward) beside.run(true);
    in_place.run(backward);
    EXPECT_TRUE(backward || in_place.loss == beside.loss);
    EXPECT_TRUE(in_place.dlogits == beside.dlogits);
  }
}

// A row whose logits rise from far below moves the base of every thread again and again; one of equal logits near the
// end of fp32 never does.
TEST_P(CudaCrossEntropy, LogitsOfAnySizeGiveTheLossOfTheirDifferences) {
  Batch batch(3, GetParam());
  const auto columns = static_cast<double>(GetParam());
  double sum = 0;
  for (std::int64_t j = 0; j < GetParam(); ++j) {
    batch.logit(0, j) = -3.4028234e38F;
    batch.logit(1, j) = 3e38F;
    batch.logit(2, j) = static_cast<float>(20000 * (static_cast<double>(j) / columns - 1));
    sum += std::exp(static_cast<double>(batch.logit(2, j)));
  }
  batch.targets = {3, 4, GetParam() - 1};
  batch.run();
  EXPECT_NEAR(batch.loss[0], std::log(columns), 2e-5);
  EXPECT_NEAR(batch.loss[1], std::log(columns), 2e-5);
  EXPECT_NEAR(batch.loss[2], std::log(sum) - batch.logit(2, GetParam() - 1), 2e-5);
  EXPECT_NEAR(batch.gradient(0, 5) * columns, 1, 1e-5);
}

}  // namespace
}  // namespace ridge::testing
