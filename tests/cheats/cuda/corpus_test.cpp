// The CUDA corpus without a GPU: every item can be read, says what must become of it, and compiles; what only shows on
// a device is run by scripts/gpu.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cheats/cuda/items.h"
#include "evaluate/cuda/gpu.h"
#include "places.h"
#include "record/launch_plan.h"
#include "toolchain/device_build.h"

namespace ridge::cheats {
namespace {

using record::Defence;
using ::testing::HasSubstr;

const std::vector<CudaItem>& items() {
  static const std::vector<CudaItem> all = cuda_items(source_dir() / "tests" / "cheats" / "cuda");
  return all;
}

const CudaItem& item(const std::string& name) {
  return *std::find_if(items().begin(), items().end(), [&](const CudaItem& one) { return one.name == name; });
}

std::int64_t count(bool honest) {
  return std::count_if(items().begin(), items().end(), [&](const CudaItem& one) { return one.honest == honest; });
}

Result<toolchain::DeviceBuild> build(const CudaItem& one) {
  RIDGE_TRY(compiler, toolchain::find_device_compiler());
  toolchain::BuildOptions options;
  options.cache_directory = binary_dir() / "cheats-cache";
  return toolchain::build_device_candidate(one.candidate, "sm_90a", *compiler, options);
}

TEST(CudaCorpus, IsLargeEnough) {
  EXPECT_GE(count(false), 60);
  EXPECT_GE(count(true), 15);
}

TEST(CudaCorpus, ProvesTheDefencesOfTheDevice) {
  std::set<Defence> proven;
  for (const CudaItem& one : items()) {
    if (one.proves) proven.insert(one.gate);
  }
  for (const Defence gate :
       {Defence::kNonfinite,   Defence::kRms,         Defence::kBias,      Defence::kProjection,
        Defence::kPoison,      Defence::kFreshInputs, Defence::kRedZone,   Defence::kRowPadding,
        Defence::kInputIntact, Defence::kEveryCall,   Defence::kFullDraw,  Defence::kNewAddress,
        Defence::kPaddedRows,  Defence::kFamilies,    Defence::kHeldOut,   Defence::kInformative,
        Defence::kRerun,       Defence::kSanitizer,   Defence::kGuardPage, Defence::kDeviceCalls}) {
    EXPECT_TRUE(proven.contains(gate)) << record::name_of(gate);
  }
}

TEST(CudaCorpus, ProvesTheLargerShapesOfHeldOut) {
  EXPECT_TRUE(std::any_of(items().begin(), items().end(), [](const CudaItem& one) {
    return one.proves && one.part == evaluate::Part::kLargerShapes && one.gate == Defence::kHeldOut;
  }));
}

TEST(CudaCorpus, HasAPlanInEveryItem) {
  for (const CudaItem& one : items()) {
    const auto plan = record::launch_plan(one.candidate);
    EXPECT_TRUE(plan.ok()) << one.name << ": " << plan.error().text();
  }
}

TEST(CudaCorpus, CompilesExceptWhereItMustNot) {
  if (!toolchain::find_device_compiler()) GTEST_SKIP() << "neither NVRTC nor nvcc here";
  const std::set<std::string> refused = {"does_not_compile", "launches_from_device"};
  for (const CudaItem& one : items()) {
    const auto built = build(one);
    ASSERT_TRUE(built.ok()) << one.name << ": " << built.error().text();
    EXPECT_EQ(built->ok(), !refused.contains(one.name)) << one.name << ": " << built->error;
    const auto call = evaluate::cuda::device_call(built->cubin);
    EXPECT_EQ(call.has_value(), one.gate == Defence::kDeviceCalls) << one.name;
  }
}

TEST(CudaCorpus, ACompilersErrorNamesTheLine) {
  if (!toolchain::find_device_compiler()) GTEST_SKIP() << "neither NVRTC nor nvcc here";
  const auto built = build(item("does_not_compile"));
  ASSERT_TRUE(built.ok());
  EXPECT_THAT(built->error, HasSubstr("kernel.cu"));
}

}  // namespace
}  // namespace ridge::cheats
