// Scratch memory of calls: who gives it, how much, and that no other call has it meanwhile. On a processor; tests/cuda
// has streams and graphs.
#include "ops/workspace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "ops/harness.h"
#include "scale/contract.h"

namespace ridge::testing {
namespace {

using ops::Workspace;
using ::testing::HasSubstr;

TEST(Workspace, IsAlignedAndOfTheCallAloneAndTakenAgainAfterIt) {
  const Stream stream = Stream::cpu();
  void *first = nullptr, *second = nullptr;
  {
    const auto outer = Workspace::take(1000, stream), inner = Workspace::take(500, stream);
    ASSERT_TRUE(outer.ok());
    ASSERT_TRUE(inner.ok());
    first = outer->data();
    second = inner->data();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 256, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 256, 0u);
    std::memset(first, 1, 1000);
    std::memset(second, 2, 500);
    EXPECT_EQ(static_cast<unsigned char*>(first)[999], 1) << "two calls share memory";
  }
  const std::size_t held = ops::pooled_workspace_bytes(Backend::kCpu);
  for (int call = 0; call < 100; ++call) {
    const auto again = Workspace::take(1000, stream);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->data(), first);
  }
  EXPECT_EQ(ops::pooled_workspace_bytes(Backend::kCpu), held) << "the pool grows without end";
}

TEST(Workspace, APoolKeepsNoBlockThatHasBecomeTooSmall) {
  std::thread([] {  // whose pool is empty
    for (std::size_t bytes = 256; bytes <= (1u << 20); bytes *= 2)
      ASSERT_TRUE(Workspace::take(bytes, Stream::cpu()).ok());
    EXPECT_EQ(ops::pooled_workspace_bytes(Backend::kCpu), 1u << 20);
  })
      .join();
}

TEST(Workspace, MoreThanThereIsIsAnErrorThatSaysHowMuch) {
  const auto taken = Workspace::take(std::size_t{1} << 60, Stream::cpu());
  ASSERT_FALSE(taken.ok());
  EXPECT_THAT(taken.error().text(), HasSubstr("has no 1152921504606846976 bytes for a workspace"));
}

// An allocator as a framework has one.
struct Counting {
  std::size_t taken = 0, released = 0, bytes = 0;
  bool empty = false;
  alignas(256) std::byte memory[4096];
  WorkspaceAllocator allocator;

  Counting() {
    allocator.context = this;
    allocator.allocate = [](void* context, std::size_t wanted, const Stream&) -> void* {
      auto* const self = static_cast<Counting*>(context);
      ++self->taken;
      self->bytes = wanted;
      return self->empty ? nullptr : self->memory;
    };
    allocator.release = [](void* context, void* data, std::size_t, const Stream&) {
      auto* const self = static_cast<Counting*>(context);
      EXPECT_EQ(data, self->memory);
      ++self->released;
    };
  }
};

class ScaleWorkspace : public ::testing::Test {
 protected:
  void SetUp() override {
    static_cast<void>(all_operators());
    x_.resize(1000, 1.0f);
    x_[700] = -5.0f;
    y_.resize(1000);
    args_ = {TensorView::contiguous(x_.data(), DType::kF32, {1000}),
             TensorView::contiguous(y_.data(), DType::kF32, {1000})};
    args_.top = TensorView::contiguous(&top_, DType::kI64, {1});
  }
  std::vector<float> x_, y_;
  std::int64_t top_ = 0;
  ScaleArgs args_;
};

TEST_F(ScaleWorkspace, ComesFromTheAllocatorOfTheStreamAndGoesBack) {
  Counting counting;
  Stream stream = Stream::cpu(3);
  stream.allocator = &counting.allocator;
  ASSERT_TRUE(scale(args_, stream).ok());
  EXPECT_EQ(top_, 700);
  EXPECT_EQ(counting.taken, 1u);
  EXPECT_EQ(counting.released, 1u);
  EXPECT_EQ(counting.bytes, 3 * sizeof(std::int64_t)) << "of three threads";
  counting.empty = true;
  y_[0] = -7;
  const Status status = scale(args_, stream);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().text(), HasSubstr("the stream's allocator has no 24 bytes for a workspace"));
  EXPECT_EQ(counting.released, 1u) << "nothing to give back";
  EXPECT_EQ(y_[0], -7) << "the output was touched";
}

TEST_F(ScaleWorkspace, ThatTheCallerGivesIsTakenAndNoMoreThanAskedForIsWritten) {
  const ops::Operator& op = **ops::find_operator("scale");
  const ops::Implementation& blocks = **ops::find_implementation(op, "cpu_blocks");
  const ops::Problem problem = *op.bind(*record::parse_case("scale n=1000 top=1"));
  const Stream stream = Stream::cpu(3);
  const std::size_t needed = blocks.workspace_bytes(problem, stream);
  ASSERT_EQ(needed, 24u);
  alignas(256) std::byte memory[512];
  std::memset(memory, 0xa5, sizeof memory);
  const std::vector<TensorView> views = {args_.x, args_.y, args_.top};
  const std::size_t held = ops::pooled_workspace_bytes(Backend::kCpu);
  ASSERT_TRUE(blocks.run(problem, {views, {}, {memory, needed}}, stream).ok());
  EXPECT_EQ(top_, 700);
  EXPECT_EQ(ops::pooled_workspace_bytes(Backend::kCpu), held);
  for (std::size_t i = needed; i < sizeof memory; ++i) ASSERT_EQ(memory[i], std::byte{0xa5}) << i;
  const Status small = blocks.run(problem, {views, {}, {memory, needed - 1}}, stream);
  ASSERT_FALSE(small.ok());
  EXPECT_THAT(small.error().text(), HasSubstr("a workspace of 23 bytes; cpu_blocks needs 24"));
}

}  // namespace
}  // namespace ridge::testing
