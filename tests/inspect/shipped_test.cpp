#include "inspect/shipped.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "base/files.h"
#include "inspect/inspect.h"
#include "places.h"
#include "toolchain/device_build.h"

namespace ridge::inspect {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kSources = source_dir() / "src", kList = binary_dir() / "kernel_builds.json";

TEST(Shipped, ANameIsAnOperatorAndAKernel) {
  EXPECT_TRUE(names_shipped_kernel("matmul/cuda_wgmma"));
  EXPECT_TRUE(names_shipped_kernel("matmul/cuda_wgmma:pp_128x128/nt_bf16"));
  EXPECT_FALSE(names_shipped_kernel("kernel.cubin"));
  EXPECT_FALSE(names_shipped_kernel("build/kernels/a.o"));
  EXPECT_FALSE(names_shipped_kernel("../secret"));
}

TEST(Shipped, EveryBuildOfTheTableHasItsNameAndUnsupportedOnesHaveNone) {
  const std::vector<std::string> builds = *shipped_builds(kList, "matmul/cuda_wgmma");
  EXPECT_EQ(builds.front(), "pp_128x128/nt_bf16");
  EXPECT_EQ(std::set<std::string>(builds.begin(), builds.end()).size(), builds.size());
  EXPECT_THAT(builds, testing::Contains("coop_128x256_m2/tn_bf16_bf16add"));
  // An MN-major B has no 160 columns, and the direct store none either.
  EXPECT_THAT(builds, testing::Not(testing::Contains("pp_128x160/tn_bf16_bf16add")));
  EXPECT_THAT(builds, testing::Not(testing::Contains("pp_128x160/nt_bf16_direct")));
}

TEST(Shipped, WhatDoesNotExistIsAnsweredWithWhatDoes) {
  const auto kernel = build_shipped(kSources, kList, "matmul/cuda_wmma", "/tmp");
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(kernel.error().hint, HasSubstr("matmul/cuda_simt, matmul/cuda_wgmma"));
  const auto build = build_shipped(kSources, kList, "matmul/cuda_wgmma:pp_1x1", "/tmp");
  ASSERT_FALSE(build);
  EXPECT_THAT(build.error().hint, HasSubstr("the first is pp_128x128/nt_bf16"));
}

// tools/check_kernels.py asks the same of every build; this one holds the way by name to it.
TEST(Shipped, ResourcesEqualWhatPtxasReportsOfTheSameBuild) {
  if (!toolchain::find_device_compiler()) GTEST_SKIP() << "neither NVRTC nor nvcc here: nothing was built";
  const Result<TempDir> cache = TempDir::create("ridge-shipped");
  ASSERT_TRUE(cache);
  const Result<ShippedBuild> built = build_shipped(kSources, kList, "matmul/cuda_simt", cache->path());
  ASSERT_TRUE(built) << built.error().text();
  EXPECT_EQ(built->name, "matmul/cuda_simt:simt/nt_bf16");
  Options options;
  options.listing = false;
  const auto inspections = inspect_bytes(built->cubin, built->name, options);
  ASSERT_TRUE(inspections) << inspections.error().text();
  ASSERT_EQ(inspections->size(), 1u);
  ASSERT_EQ(inspections->front().kernels.size(), 1u);
  const record::KernelResources& r = inspections->front().kernels.front().resources;
  const auto reported = [&](const char* pattern) -> std::int64_t {
    std::smatch match;
    return std::regex_search(built->log, match, std::regex(pattern)) ? std::stoll(match[1]) : 0;
  };
  EXPECT_GT(reported(R"(Used (\d+) registers)"), 0) << built->log;
  EXPECT_EQ(r.registers, reported(R"(Used (\d+) registers)"));
  EXPECT_EQ(r.spill_store_bytes, reported(R"((\d+) bytes spill stores)"));
  EXPECT_EQ(r.spill_load_bytes, reported(R"((\d+) bytes spill loads)"));
  EXPECT_EQ(r.shared_bytes, reported(R"((\d+) bytes smem)"));
}

}  // namespace
}  // namespace ridge::inspect
