// The device layer on a real GPU: what it does, and what it says when something fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/files.h"
#include "base/process.h"
#include "device/cuda/buffer.h"
#include "device/cuda/graph.h"
#include "device/cuda/module.h"
#include "device/cuda/nvml.h"
#include "device/cuda/stream.h"
#include "toolchain/device_build.h"

namespace ridge::device::cuda {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr const char* kSource = R"cu(
extern "C" __global__ void add(int* x, int amount, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] += amount;
}
extern "C" __global__ void write_to(int* address) { *address = 1; }
extern "C" __global__ void trap() { __trap(); }
)cu";

class CudaDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto device = Device::open(0);
    ASSERT_TRUE(device) << device.error().text();
    device_ = *device;
    ASSERT_TRUE(device_->make_current());
    auto stream = Stream::create(*device_);
    ASSERT_TRUE(stream);
    stream_.emplace(std::move(*stream));
  }
  Module module() {
    const auto compiler = toolchain::find_device_compiler();
    EXPECT_TRUE(compiler) << compiler.error().text();
    const auto directory = TempDir::create("ridge-cuda-test");
    toolchain::BuildOptions options;
    options.cache_directory = directory->path();
    toolchain::DeviceCode code;
    code.files = {{"test.cu", kSource}};
    code.arch = device_->info().arch;
    const auto built = toolchain::build_device(code, **compiler, options);
    EXPECT_TRUE(built && built->ok()) << (built ? built->error : built.error().text());
    auto loaded = Module::load(*device_, built->cubin);
    EXPECT_TRUE(loaded) << loaded.error().text();
    return std::move(*loaded);
  }
  Buffer buffer(std::size_t bytes) {
    auto made = Buffer::allocate(*device_, bytes);
    EXPECT_TRUE(made) << made.error().text();
    return std::move(*made);
  }

  const Device* device_ = nullptr;
  std::optional<Stream> stream_;
};

TEST_F(CudaDevice, DescribesItself) {
  const GpuInfo& info = device_->info();
  EXPECT_GT(info.multiprocessors, 0);
  EXPECT_GT(info.memory_bytes, 0);
  EXPECT_GT(info.l2_bytes, 0);
  EXPECT_GE(info.max_shared_bytes, 48 * 1024);
  EXPECT_THAT(info.uuid, ::testing::MatchesRegex("GPU-[0-9a-f-]+"));
  const auto memory = device_->memory();
  ASSERT_TRUE(memory);
  EXPECT_LE(memory->free_bytes, memory->total_bytes);
  EXPECT_TRUE(device_->reset_persisting_l2());
}

TEST_F(CudaDevice, CopiesFillsAndLaunchesInOrder) {
  constexpr int kCount = 1000;
  const Module code = module();
  const auto add = code.kernel("add");
  ASSERT_TRUE(add) << add.error().text();
  EXPECT_GT(add->attributes().registers, 0);
  EXPECT_EQ(add->attributes().local_bytes, 0);
  const Buffer data = buffer(kCount * sizeof(int));
  auto pinned = PinnedBuffer::allocate(*device_, kCount * sizeof(int));
  ASSERT_TRUE(pinned);
  std::iota(pinned->as<int>(), pinned->as<int>() + kCount, 0);
  ASSERT_TRUE(copy_to_device(data.data(), pinned->data(), data.bytes(), stream_->handle()));
  void* pointer = data.data();
  int amount = 5, count = kCount;
  const std::array<void*, 3> arguments = {&pointer, &amount, &count};
  LaunchShape shape;
  shape.grid.x = 4;
  shape.block.x = 256;
  ASSERT_TRUE(add->launch(shape, arguments, stream_->handle()));
  ASSERT_TRUE(copy_to_host(pinned->data(), data.data(), data.bytes(), stream_->handle()));
  ASSERT_TRUE(stream_->synchronize());
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(pinned->as<int>()[i], i + 5);
  const auto idle = stream_->idle();
  ASSERT_TRUE(idle);
  EXPECT_TRUE(*idle);
}

TEST_F(CudaDevice, RowsAreFilledAndCopiedWithoutTouchingTheGaps) {
  const Buffer data = buffer(8 * 16);
  ASSERT_TRUE(fill_bytes(data.data(), 0xaa, data.bytes(), stream_->handle()));
  ASSERT_TRUE(fill_rows({data.data(), 16}, 0, 10, 8, stream_->handle()));
  std::vector<unsigned char> host(data.bytes()), rows(8 * 10, 0xff);
  ASSERT_TRUE(copy_to_host(host.data(), data.data(), data.bytes(), stream_->handle()));
  ASSERT_TRUE(copy_rows_to_host({rows.data(), 10}, {data.data(), 16}, 10, 8, stream_->handle()));
  ASSERT_TRUE(stream_->synchronize());
  EXPECT_THAT(rows, Each(0));
  for (std::size_t i = 0; i < host.size(); ++i) ASSERT_EQ(host[i], i % 16 < 10 ? 0 : 0xaa) << i;
}

TEST_F(CudaDevice, EventsMeasureWhatLiesBetweenThem) {
  const auto start = Event::create(), stop = Event::create();
  ASSERT_TRUE(start && stop);
  const Buffer data = buffer(std::size_t{64} << 20);
  ASSERT_TRUE(start->record(stream_->handle()));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(fill_bytes(data.data(), 1, data.bytes(), stream_->handle()));
  ASSERT_TRUE(stop->record(stream_->handle()));
  ASSERT_TRUE(stop->synchronize());
  const auto seconds = stop->since(*start);
  ASSERT_TRUE(seconds);
  EXPECT_GT(*seconds, 1e-5);
  EXPECT_LT(*seconds, 1.0);
}

TEST_F(CudaDevice, AGraphRepeatsWhatWasCaptured) {
  const Module code = module();
  const auto add = code.kernel("add");
  ASSERT_TRUE(add);
  const Buffer data = buffer(64 * sizeof(int));
  ASSERT_TRUE(fill_bytes(data.data(), 0, data.bytes(), stream_->handle()));
  ASSERT_TRUE(stream_->synchronize());
  void* pointer = data.data();
  int amount = 3, count = 64;
  const std::array<void*, 3> arguments = {&pointer, &amount, &count};
  LaunchShape shape;
  shape.block.x = 64;
  const auto graph = Graph::capture(*device_, [&](StreamHandle stream) -> Status {
    const auto capturing = is_capturing(stream);
    EXPECT_TRUE(capturing && *capturing);
    RIDGE_CHECK_OK(add->launch(shape, arguments, stream));
    return add->launch(shape, arguments, stream);
  });
  ASSERT_TRUE(graph) << graph.error().text();
  EXPECT_EQ(graph->nodes(), 2u);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(graph->launch(stream_->handle()));
  std::vector<int> host(64);
  ASSERT_TRUE(copy_to_host(host.data(), data.data(), data.bytes(), stream_->handle()));
  ASSERT_TRUE(stream_->synchronize());
  EXPECT_THAT(host, Each(30));
  const auto failed = Graph::capture(*device_, [](StreamHandle) -> Status {
    return Error{ErrorCode::kConflict, "no", ""};
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "no");
}

TEST_F(CudaDevice, TooMuchMemoryIsAnErrorWithTheNumbersAndHarmsNothing) {
  const auto huge = Buffer::allocate(*device_, std::size_t{1} << 42);
  ASSERT_FALSE(huge);
  EXPECT_THAT(huge.error().message, HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
  EXPECT_THAT(huge.error().message, HasSubstr("4096.000 GiB asked for on " + device_->info().name));
  EXPECT_THAT(huge.error().message, HasSubstr("GiB free"));
  EXPECT_EQ(last_fault().kind, FaultKind::kOutOfMemory);
  EXPECT_FALSE(last_fault().sticky);
  EXPECT_EQ(sticky_fault().kind, FaultKind::kNone);
  EXPECT_TRUE(Buffer::allocate(*device_, 1024));
}

TEST_F(CudaDevice, WrongImagesSymbolsAndLaunchesAreNamed) {
  const auto image = Module::load(*device_, "this is no machine code");
  ASSERT_FALSE(image);
  EXPECT_EQ(last_fault().kind, FaultKind::kBadImage) << image.error().text();
  const Module code = module();
  const auto symbol = code.kernel("subtract");
  ASSERT_FALSE(symbol);
  EXPECT_THAT(symbol.error().text(), HasSubstr("no kernel \"subtract\" (declare it extern \"C\""));
  const auto add = code.kernel("add");
  ASSERT_TRUE(add);
  void* pointer = nullptr;
  int amount = 0, count = 0;
  const std::array<void*, 3> arguments = {&pointer, &amount, &count};
  LaunchShape shape;
  shape.block.x = 2048;
  const Status launched = add->launch(shape, arguments, stream_->handle());
  ASSERT_FALSE(launched);
  EXPECT_THAT(launched.error().message, HasSubstr("kernel add, grid 1 x 1 x 1, block 2048 x 1 x 1"));
  EXPECT_EQ(last_fault().kind, FaultKind::kBadLaunch);
  EXPECT_TRUE(stream_->synchronize()) << "a refused launch leaves the device usable";
  shape.block.x = 32;
  shape.grid.x = 0;
  EXPECT_TRUE(add->launch(shape, arguments, stream_->handle())) << "an empty grid launches nothing";
}

TEST_F(CudaDevice, TelemetryReadsWhatTheLibraryGives) {
  if (!nvml_status()) GTEST_SKIP() << nvml_status().error().text();
  const Telemetry t = read_telemetry(device_->info().uuid);
  ASSERT_TRUE(t.sm_clock_mhz) << t.missing;
  EXPECT_GT(*t.sm_clock_mhz, 100);
  EXPECT_TRUE(t.power_watts && *t.power_watts > 10) << t.missing;
  EXPECT_TRUE(t.temperature_celsius && *t.temperature_celsius > 10) << t.missing;
  std::string reasons;
  for (const std::string& reason : t.throttle_reasons.value_or(std::vector<std::string>{}))
    reasons += " [" + reason + "]";
  std::printf("SM %.0f MHz of %.0f, %.0f W of %.0f, %.0f C, reasons%s, %zu process(es); not read: %s\n",
              *t.sm_clock_mhz, t.max_sm_clock_mhz.value_or(0), t.power_watts.value_or(0),
              t.power_limit_watts.value_or(0), t.temperature_celsius.value_or(0), reasons.c_str(),
              t.processes ? t.processes->size() : 0, t.missing.empty() ? "nothing" : t.missing.c_str());
}

// The three below end the context, so each runs in a process of its own, started by Faults.
class FaultInChild : public CudaDevice {
 protected:
  void end_context(const char* symbol, void* address) {
    const Module code = module();
    const auto kernel = code.kernel(symbol);
    ASSERT_TRUE(kernel);
    const std::array<void*, 1> arguments = {&address};
    ASSERT_TRUE(kernel->launch(LaunchShape{}, arguments, stream_->handle()));
    const Status status = stream_->synchronize();
    ASSERT_FALSE(status);
    std::printf("fault: %s: %s\n", std::string(to_string(last_fault().kind)).c_str(), status.error().text().c_str());
    EXPECT_TRUE(last_fault().sticky);
    EXPECT_EQ(sticky_fault().kind, last_fault().kind);
    EXPECT_FALSE(Buffer::allocate(*device_, 16)) << "the context is gone";
    std::fflush(stdout);
    std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
  }
};
TEST_F(FaultInChild, DISABLED_IllegalAddress) { end_context("write_to", reinterpret_cast<void*>(std::uintptr_t{64})); }
TEST_F(FaultInChild, DISABLED_Misaligned) {
  const Buffer data = buffer(64);
  end_context("write_to", static_cast<char*>(data.data()) + 1);
}
TEST_F(FaultInChild, DISABLED_Trap) { end_context("trap", nullptr); }

std::string run_child(const std::string& test) {
  ProcessSpec spec;
  spec.argv = {"/proc/self/exe", "--gtest_also_run_disabled_tests", "--gtest_filter=FaultInChild.DISABLED_" + test};
  std::error_code failure;
  spec.argv[0] = std::filesystem::read_symlink("/proc/self/exe", failure).string();
  spec.timeout = 120.0;
  const auto ended = run_process(spec);
  if (!ended) return ended.error().text();
  return ended->describe() + "\n" + ended->output + ended->error_output;
}

TEST(Faults, OfAKernelAreNamedAndKnownToBeFinal) {
  const std::string illegal = run_child("IllegalAddress");
  EXPECT_THAT(illegal, HasSubstr("exited with 0"));
  EXPECT_THAT(illegal, HasSubstr("fault: illegal address: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  EXPECT_THAT(illegal, HasSubstr("compute-sanitizer names the place"));
  const std::string misaligned = run_child("Misaligned");
  EXPECT_THAT(misaligned, HasSubstr("exited with 0"));
  EXPECT_THAT(misaligned, HasSubstr("fault: kernel failed: cuStreamSynchronize: CUDA_ERROR_MISALIGNED_ADDRESS"));
  const std::string trap = run_child("Trap");
  EXPECT_THAT(trap, HasSubstr("exited with 0"));
  EXPECT_THAT(trap, HasSubstr("fault: kernel failed"));
  EXPECT_THAT(trap, HasSubstr("this process can no longer use the GPU; a new one can"));
}

}  // namespace
}  // namespace ridge::device::cuda
