// The parts of measuring on a GPU that need none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "evaluate/cuda/floor.h"
#include "evaluate/cuda/memory.h"
#include "evaluate/cuda/timer.h"
#include "evaluate/host_fork.h"
#include "ops/op.h"

namespace ridge::evaluate {
namespace {

using ::testing::HasSubstr;

ops::Problem gemm(const std::string& text) {
  const ops::Operator* const op = *ops::find_operator("gemm");
  return *op->bind(*record::parse_case("gemm " + text));
}

device::cuda::GpuInfo h200() {
  device::cuda::GpuInfo gpu;
  gpu.compute_major = 9;
  gpu.multiprocessors = 132;
  gpu.memory_clock_khz = 3'201'000;
  gpu.memory_bus_bits = 6144;
  gpu.l2_bytes = 60 << 20;
  return gpu;
}

TEST(Forked, AnswersAMessage) {
  auto process = ForkedProcess::start([](int socket) {
    int value = 0;
    if (receive_message(socket, &value, sizeof value)) send_message(socket, &++value, sizeof value);
  });
  ASSERT_TRUE(process.ok());
  int value = 41;
  ASSERT_TRUE(process->send(&value, sizeof value));
  ASSERT_EQ(process->receive(&value, sizeof value, 10), ForkedProcess::Received::kMessage);
  EXPECT_EQ(value, 42);
}

TEST(Forked, ThatHangsIsKilledInTime) {
  auto process = ForkedProcess::start([](int) {
    for (;;) ::pause();
  });
  ASSERT_TRUE(process.ok());
  int value = 0;
  EXPECT_EQ(process->receive(&value, sizeof value, 0.05), ForkedProcess::Received::kNothing);
  EXPECT_TRUE(process->end(10));
  EXPECT_FALSE(process->running());
}

TEST(Forked, ThatDiesSaysHow) {
  auto process = ForkedProcess::start([](int) { ::kill(::getpid(), SIGKILL); });
  ASSERT_TRUE(process.ok());
  int value = 0;
  EXPECT_EQ(process->receive(&value, sizeof value, 10), ForkedProcess::Received::kEnded);
  EXPECT_THAT(process->how_it_ended(), HasSubstr("signal 9"));
}

TEST(DeviceFloor, IsTheLargerOfBytesAndArithmetic) {
  record::Cost cost;
  const ops::Problem square = gemm("m=8192 n=8192 k=8192 dtype=bf16");
  cost.flop = 2.0 * 8192 * 8192 * 8192;
  EXPECT_NEAR(cuda::floor_seconds(square, cost, h200(), 1.83e9, true), cost.flop / 990e12, 2e-6);
  const ops::Problem thin = gemm("m=1 n=8192 k=8192 dtype=bf16");
  cost.flop = 2.0 * 8192 * 8192;
  EXPECT_NEAR(cuda::floor_seconds(thin, cost, h200(), 1.83e9, true), 8192.0 * 8192 * 2 / 4.917e12, 1e-7);
  EXPECT_LT(cuda::floor_seconds(thin, cost, h200(), 1.83e9, false), 1e-6) << "a warm cache needs no memory";
}

TEST(Clocks, ThatAgreeAreBelieved) {
  const cuda::Instrument instrument{.empty = 2e-6, .timer_step = 32e-9};
  EXPECT_FALSE(cuda::contradiction({.span = 102e-6, .stamp = 100.2e-6, .host = 101e-6}, instrument));
}

TEST(Clocks, ThatDisagreeAreNamedWithTheirTimes) {
  const cuda::Instrument instrument{.empty = 2e-6, .timer_step = 32e-9};
  const auto stamps = cuda::contradiction({.span = 102e-6, .stamp = 110e-6, .host = 112e-6}, instrument);
  ASSERT_TRUE(stamps);
  EXPECT_THAT(*stamps, HasSubstr("110.000 us"));
  const auto host = cuda::contradiction({.span = 102e-6, .stamp = 100e-6, .host = 60e-6}, instrument);
  ASSERT_TRUE(host);
  EXPECT_THAT(*host, HasSubstr("the host saw the end 60.000 us"));
}

TEST(DevicePlace, LeavesGapsBetweenPaddedRowsAndNoneOtherwise) {
  const ops::Problem problem = gemm("m=5 n=7 k=3 dtype=bf16");
  EXPECT_EQ(cuda::operand_views(problem, RowPadding::kNone)[2].stride[0], 7);
  EXPECT_EQ(cuda::operand_views(problem, RowPadding::kPadded)[2].stride[0], 7 + 32);
  EXPECT_GT(cuda::place_bytes(cuda::operand_views(problem, RowPadding::kNone), {1024}),
            5u * static_cast<unsigned>(cuda::kDeviceRedZone));
}

}  // namespace
}  // namespace ridge::evaluate
