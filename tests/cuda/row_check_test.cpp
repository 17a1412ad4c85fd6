// Verdicts of the check of row models on a device: those of the host's check.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "device/cuda/backend.h"
#include "device/cuda/buffer.h"
#include "device/cuda/stream.h"
#include "evaluate/cuda/check_module.h"
#include "ops/row_check_source.h"

namespace ridge::testing {
namespace {

using numerics::Family;

class RowCheckOnDevice : public RowCheckSource {
 protected:
  void SetUp() override {
    RowCheckSource::SetUp();
    if (IsSkipped()) return;
    auto device = device::cuda::Device::open(0);
    if (!device) GTEST_SKIP() << device.error().text();
    device_ = *device;
    ASSERT_TRUE(device_->make_current());
    auto stream = device::cuda::Stream::create(*device_);
    ASSERT_TRUE(stream);
    stream_.emplace(std::move(*stream));
  }

  template <class Definition>
  void load(const RowCase<Definition>& one, std::string_view type) {
    check_ = one.device_check(kRowModels, type);
    auto module = evaluate::cuda::CheckModule::load(*device_, compile(check_->source));
    ASSERT_TRUE(module) << module.error().text();
    module_ = std::move(*module);
  }
  // A problem's operands in memory of the device, and what a projection needs beside them.
  struct OnDevice {
    std::vector<device::cuda::Buffer> memory;
    std::vector<TensorView> views;
    void *scratch = nullptr, *result = nullptr;
  };
  template <class Definition>
  OnDevice place(const RowCase<Definition>& one) {
    OnDevice placed;
    placed.views = one.views();
    const auto allocate = [&](std::size_t bytes) -> void* {
      auto made = device::cuda::Buffer::allocate(*device_, bytes);
      EXPECT_TRUE(made);
      placed.memory.push_back(std::move(*made));
      EXPECT_TRUE(device::cuda::fill_bytes(placed.memory.back().data(), 0, bytes, stream_->handle()));
      return placed.memory.back().data();
    };
    for (TensorView& view : placed.views) {
      const std::size_t bytes = size_bytes(view.dtype, view.element_count());
      void* const there = allocate(bytes);
      EXPECT_TRUE(device::cuda::copy_to_device(there, view.data, bytes, stream_->handle()));
      view.data = there;
    }
    placed.scratch = allocate(check_->scratch_bytes(one.problem()));
    placed.result = allocate(sizeof(ops::ProjectionResult));
    return placed;
  }
  template <class Definition>
  void project(const RowCase<Definition>& one, const OnDevice& placed, std::uint64_t seed) {
    for (const auto& launch : check_->projection({one.problem(), placed.views, seed, placed.scratch, placed.result})) {
      const Status launched = module_->run(launch, stream_->handle());
      ASSERT_TRUE(launched) << launched.error().text();
    }
  }
  template <class Definition>
  bool right(const RowCase<Definition>& one, std::uint64_t seed) {
    const OnDevice placed = place(one);
    project(one, placed, seed);
    ops::ProjectionResult seen;
    EXPECT_TRUE(device::cuda::copy_to_host(&seen, placed.result, sizeof(seen), stream_->handle()));
    EXPECT_TRUE(stream_->synchronize());
    return right_by(seen);
  }
  // Of zeros: the least of ten.
  template <class Definition>
  double projection_seconds(const RowCase<Definition>& one) {
    const OnDevice placed = place(one);
    auto before = device::cuda::Event::create(), after = device::cuda::Event::create();
    double least = 1e9;
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(before->record(stream_->handle()));
      project(one, placed, 1);
      EXPECT_TRUE(after->record(stream_->handle()));
      EXPECT_TRUE(after->synchronize());
      least = std::min(least, *after->since(*before));
    }
    return least;
  }

  const device::cuda::Device* device_ = nullptr;
  std::optional<device::cuda::Stream> stream_;
  std::shared_ptr<const ops::DeviceCheck> check_;
  std::unique_ptr<evaluate::cuda::CheckModule> module_;
};

TEST_F(RowCheckOnDevice, RightOutputsPassAndEveryMutantIsSeen) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const std::int64_t columns : {600, 5000}) {  // a warp for a row, a block for one
      auto one = norm_case(200, columns, dtype), other = norm_case(200, columns, dtype);
      ASSERT_NO_FATAL_FAILURE(load(one, "row_models::Norm"));
      for (const Family family : {Family::kSpikes, Family::kTies, Family::kMixture, Family::kNormal}) {
        one.fill(family, 7);
        one.compute();
        EXPECT_TRUE(right(one, 1)) << to_string(dtype) << " " << columns;
      }
      other.fill(Family::kNormal, 70);
      other.compute();
      for (const auto& [name, mutate] : norm_mutants(one, other)) {
        one.compute();
        mutate();
        EXPECT_FALSE(one.right_on_host()) << name;
        for (const std::uint64_t seed : {1, 2, 3}) EXPECT_FALSE(right(one, seed)) << name;
      }
    }
  }
}

TEST_F(RowCheckOnDevice, ATermLeftOutOfAColumnSumIsSeen) {
  auto one = norm_backward_case(1000, 700);
  ASSERT_NO_FATAL_FAILURE(load(one, "row_models::NormBackward"));
  one.fill(Family::kNormal, 3);
  one.compute();
  EXPECT_TRUE(right(one, 1));
  drop_a_term(one);
  EXPECT_FALSE(one.right_on_host());
  EXPECT_FALSE(right(one, 1));
}

// What an element costs does not depend on its width, so the limit is in reads of fp32. The line says what was found.
TEST_F(RowCheckOnDevice, CostsAFewReadsOfTheOperands) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    auto one = norm_case(8192, 4096, dtype);
    ASSERT_NO_FATAL_FAILURE(load(one, "row_models::Norm"));
    const double seconds = projection_seconds(one);
    const device::cuda::GpuInfo& gpu = device_->info();
    const double bandwidth = 2e3 * gpu.memory_clock_khz * gpu.memory_bus_bits / 8;
    const double read = 2.0 * static_cast<double>(size_bytes(DType::kF32, 8192 * 4096)) / bandwidth;
    std::printf("[ COST     ] norm 8192x4096 %s: %.1f us, %.1f times one read of x and y in f32\n",
                std::string(to_string(dtype)).c_str(), 1e6 * seconds, seconds / read);
    EXPECT_LT(seconds, 20 * read);
  }
}

}  // namespace
}  // namespace ridge::testing
