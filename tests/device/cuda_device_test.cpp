// What of the CUDA device layer can be tested anywhere: its answers without a driver, and its checks before a launch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "base/files.h"
#include "base/process.h"
#include "device/cuda/device.h"
#include "device/cuda/library.h"
#include "device/cuda/module.h"
#include "device/cuda/nvml.h"
#include "device/cuda/tensor_map.h"

namespace ridge::device::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

GpuInfo hopper() {
  GpuInfo gpu;
  gpu.name = "a GPU";
  gpu.arch = "sm_90a";
  gpu.compute_major = 9;
  gpu.max_shared_bytes = 232448;
  gpu.max_threads_per_block = 1024;
  return gpu;
}

std::string shape_error(const LaunchShape& shape, const GpuInfo& gpu = hopper()) {
  const Status checked = check_shape(shape, gpu);
  return checked ? "ok" : checked.error().text();
}

// What the test below asks a copy of this program.
TEST(Toolkit, DISABLED_SaysWhereItLooks) {
  for (const std::string& path : toolkit_library("ridge-test", {"7"})) std::printf("library %s\n", path.c_str());
  for (const std::string& path : toolkit_include_folders()) std::printf("headers %s\n", path.c_str());
}

// A Python that is started by its path sets no VIRTUAL_ENV: NVRTC of PyTorch's wheels was not found there.
TEST(Toolkit, IsFoundBesideThePackageThatThisCodeIsInstalledIn) {
  const auto directory = TempDir::create("ridge-packages");
  ASSERT_TRUE(directory);
  const std::filesystem::path packages = directory->path(), component = packages / "nvidia" / "cu13";
  for (const std::filesystem::path& folder :
       {packages / "ridgeline" / "bin", component / "lib", component / "include"}) {
    std::filesystem::create_directories(folder);
  }
  ASSERT_TRUE(write_file_durably(component / "lib" / "libridge-test.so.7", ""));
  ASSERT_TRUE(write_file_durably(component / "include" / "cuda_fp16.h", ""));
  const std::filesystem::path program = packages / "ridgeline" / "bin" / "program";
  std::filesystem::copy_file(std::filesystem::read_symlink("/proc/self/exe"), program);
  const auto said =
      run_process({.argv = {program.string(), "--gtest_also_run_disabled_tests", "--gtest_filter=Toolkit.DISABLED_*"},
                   .environment = {{"VIRTUAL_ENV", ""}}});
  ASSERT_TRUE(said && said->succeeded()) << (said ? said->output : said.error().text());
  EXPECT_THAT(said->output, HasSubstr("library " + (component / "lib" / "libridge-test.so.7").string()));
  EXPECT_THAT(said->output, HasSubstr("headers " + (component / "include").string()));
}

TEST(CudaBackend, AnswersWithoutADriverAndSaysWhatIsMissing) {
  const auto gpus = list_gpus();
  if (gpus) {
    EXPECT_FALSE(gpus->empty());
    EXPECT_THAT(gpu_info(99).error().text(), HasSubstr("there is no GPU 99 (the GPUs here: 0: "));
    return;
  }
  EXPECT_EQ(gpus.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(gpus.error().text(), HasSubstr("driver"));
  EXPECT_THAT(gpus.error().hint, HasSubstr("everything else works without"));
  EXPECT_EQ(Device::open(0).error().message, gpus.error().message);
}

TEST(LaunchShape, LimitsAreNamedBeforeAnythingIsLaunched) {
  EXPECT_EQ(shape_error({{1024, 8, 1}, {256}, {2, 1, 1}, 200000}), "ok");
  EXPECT_THAT(shape_error({{0, 1, 1}, {256}}), HasSubstr("grid 0 x 1 x 1: side 0 is 0; it must be 1 to 2147483647"));
  EXPECT_THAT(shape_error({{1, 70000, 1}, {256}}), HasSubstr("side 1 is 70000; it must be 1 to 65535"));
  EXPECT_THAT(shape_error({{1}, {0}}), HasSubstr("block 0 x 1 x 1"));
  EXPECT_THAT(shape_error({{1}, {1024, 2, 1}}), HasSubstr("has 2048 threads; a GPU takes 1024"));
  EXPECT_THAT(shape_error({{7}, {32}, {2, 1, 1}}),
              HasSubstr("grid 7 x 1 x 1 is not divisible by the cluster 2 x 1 x 1"));
  EXPECT_THAT(shape_error({{32}, {32}, {32, 1, 1}}), HasSubstr("the most is 16"));
  EXPECT_THAT(shape_error({{1}, {32}, {1}, 300000}), HasSubstr("300000 bytes of dynamic shared memory"));
  GpuInfo ampere = hopper();
  ampere.compute_major = 8;
  EXPECT_THAT(shape_error({{2}, {32}, {2, 1, 1}}, ampere), HasSubstr("has no clusters"));
}

TEST(TensorMap, RulesOfTheCopyEngineAreNamed) {
  TensorMapRequest good;
  good.sizes = {64, 100};
  good.strides_bytes = {0, 128};
  good.box = {64, 128};
  const auto base = reinterpret_cast<const void*>(std::uintptr_t{0x1000});
  EXPECT_TRUE(check(good, base));
  const auto error = [&](auto change, std::uintptr_t at = 0x1000) {
    TensorMapRequest request = good;
    change(request);
    const Status checked = check(request, reinterpret_cast<const void*>(at));
    return checked ? std::string("ok") : checked.error().message;
  };
  EXPECT_THAT(error([](auto&) {}, 0x1008), HasSubstr("must be a multiple of 16 bytes"));
  EXPECT_THAT(error([](auto& r) { r.strides_bytes[1] = 130; }), HasSubstr("stride of 130 bytes"));
  EXPECT_THAT(error([](auto& r) { r.box[1] = 257; }), HasSubstr("box 257 of dimension 1"));
  EXPECT_THAT(error([](auto& r) { r.box[0] = 128; }), HasSubstr("256 bytes wide inside, more than the swizzle of 128"));
  EXPECT_THAT(error([](auto& r) { r.box[0] = 4; }), HasSubstr("8 bytes wide inside; it must be a multiple of 16"));
  EXPECT_THAT(error([](auto& r) { r.sizes[0] = 0; }), HasSubstr("size 0 of dimension 0"));
  EXPECT_THAT(error([](auto& r) { r.swizzle_bytes = 16; }), HasSubstr("swizzle 16"));
  EXPECT_THAT(error([](auto& r) { r.dtype = DType::kE2m1; }), HasSubstr("e2m1 have 4 bits"));
}

TEST(Telemetry, ReasonsAreNamedAndHarmlessOnesDoNotCountAsThrottling) {
  EXPECT_THAT(throttle_reason_names(0x1 | 0x4 | 0x40), ElementsAre("idle", "power cap", "thermal (hardware)"));
  EXPECT_THAT(throttle_reason_names(0x10000), ElementsAre("unknown reason 0x10000"));
  Telemetry t;
  EXPECT_FALSE(t.throttled());
  t.throttle_reasons = throttle_reason_names(0x1 | 0x2);
  EXPECT_FALSE(t.throttled());
  t.throttle_reasons = throttle_reason_names(0x8);
  EXPECT_TRUE(t.throttled());
}

TEST(Telemetry, AMissingLibraryIsNamedAndNothingIsInvented) {
  if (nvml_status()) GTEST_SKIP() << "this machine has the management library";
  const Telemetry t = read_telemetry("GPU-none");
  EXPECT_THAT(t.missing, HasSubstr("no NVIDIA management library"));
  EXPECT_FALSE(t.sm_clock_mhz);
  EXPECT_FALSE(t.processes);
}

}  // namespace
}  // namespace ridge::device::cuda
