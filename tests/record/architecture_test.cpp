// Architectures are numbers: newer is newer whatever the text sorts like, and what is no architecture is named.
#include "record/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record/kernel_target.h"

namespace ridge::record {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Architecture read(std::string_view name) {
  const Result<Architecture> found = parse_architecture(name);
  EXPECT_TRUE(found) << name << ": " << found.error().text();
  return found ? *found : Architecture{};
}

TEST(KernelTargets, AreWhatAGpuAsksFor) {
  for (const KernelTarget& one : kernel_targets()) {
    const Architecture read_back = read(one.arch);
    EXPECT_EQ(nvidia_target(read_back.major, read_back.minor), one.arch);
    EXPECT_EQ(find_kernel_target(one.arch)->gpus, one.gpus);
  }
  EXPECT_TRUE(find_kernel_target(kUsualTarget));
  EXPECT_THAT(*parse_kernel_targets("sm_100a, sm_89"), ElementsAre("sm_100a", "sm_89"));
}

TEST(KernelTargets, OthersAreRefusedWithTheList) {
  const std::pair<const char*, const char*> wrong[] = {
      {"sm_90", "asks for: sm_90a"},        {"sm_89a", "asks for: sm_89"},
      {"sm_75", "older than every kernel"}, {"sm_130a", "not known to this version"},
      {"gfx942", "CUDA kernels alone"},     {"x86-64-v3", "CUDA kernels alone"},
      {"", "is no architecture"},           {"sm_90a,,sm_89", "is no architecture"}};
  for (const auto& [given, why] : wrong) {
    const auto found = parse_kernel_targets(given);
    ASSERT_FALSE(found) << given;
    EXPECT_THAT(found.error().text(), testing::AllOf(HasSubstr(why), HasSubstr("sm_90a Hopper"))) << given;
  }
  EXPECT_THAT(parse_kernel_targets("sm_89,sm_89").error().text(), HasSubstr("there twice"));
}

TEST(Architectures, AreReadIntoNumbers) {
  EXPECT_EQ(read("sm_90a"), (Architecture{ArchitectureFamily::kNvidia, 9, 0, 0, "a"}));
  EXPECT_EQ(read("sm_89"), (Architecture{ArchitectureFamily::kNvidia, 8, 9, 0, ""}));
  EXPECT_EQ(read("sm_100f"), (Architecture{ArchitectureFamily::kNvidia, 10, 0, 0, "f"}));
  EXPECT_EQ(read("sm_103a"), (Architecture{ArchitectureFamily::kNvidia, 10, 3, 0, "a"}));
  EXPECT_EQ(read("gfx942"), (Architecture{ArchitectureFamily::kAmd, 9, 4, 2, ""}));
  EXPECT_EQ(read("gfx90a:sramecc+:xnack-"), (Architecture{ArchitectureFamily::kAmd, 9, 0, 10, "sramecc+:xnack-"}));
  EXPECT_EQ(read("gfx1100"), (Architecture{ArchitectureFamily::kAmd, 11, 0, 0, ""}));
  EXPECT_EQ(read("x86-64"), (Architecture{ArchitectureFamily::kX86, 1, 0, 0, ""}));
  EXPECT_EQ(read("x86-64-v4"), (Architecture{ArchitectureFamily::kX86, 4, 0, 0, ""}));
}

TEST(Architectures, NewerOnesAreGreater) {
  EXPECT_TRUE(at_least("sm_100a", "sm_90"));
  EXPECT_FALSE(at_least("sm_90a", "sm_100"));
  EXPECT_TRUE(at_least("sm_90", "sm_90a"));  // the suffix is no age
  EXPECT_TRUE(at_least("sm_120", "sm_103a"));
  EXPECT_FALSE(at_least("sm_89", "sm_90"));
  EXPECT_TRUE(at_least("gfx942", "gfx90a"));
  EXPECT_TRUE(at_least("gfx950", "gfx942"));
  EXPECT_TRUE(at_least("gfx1100", "gfx950"));
  EXPECT_FALSE(at_least("gfx941", "gfx942"));
  EXPECT_TRUE(at_least("x86-64-v3", "x86-64"));
}

TEST(Architectures, OfTwoFamiliesAreNotCompared) {
  EXPECT_FALSE(at_least("gfx942", "sm_80"));
  EXPECT_FALSE(at_least("sm_80", "gfx942"));
  EXPECT_EQ(by_age(read("x86-64-v4"), read("sm_35")), std::partial_ordering::unordered);
}

TEST(Architectures, MalformedNamesAreNamed) {
  for (const char* name : {"",          "sm_",       "sm_9",    "sm_90b", "sm_90aa",      "sm_a90", "sm_1000",
                           "sm_-90",    "sm_090",    "SM_90",   "90",     "compute_90",   "gfx",    "gfx94",
                           "gfx9zz",    "gfx94200",  "gfx942:", "gfx-42", "gfx9-generic", "x86",    "x86-64-v",
                           "x86-64-v5", "x86-64-v0", "x86_64",  "hopper"}) {
    const Result<Architecture> found = parse_architecture(name);
    ASSERT_FALSE(found) << name;
    EXPECT_EQ(found.error().message, fmt::format("\"{}\" is no architecture", name));
    EXPECT_THAT(found.error().hint, HasSubstr("sm_90a"));
    EXPECT_FALSE(at_least(name, "sm_50"));
    EXPECT_FALSE(at_least("sm_50", name));
  }
}

TEST(Architectures, SayWhatTheirKernelsMayAskFor) {
  EXPECT_EQ(nvidia_target(9, 0), "sm_90a");
  EXPECT_EQ(nvidia_target(8, 9), "sm_89");
  EXPECT_EQ(nvidia_target(10, 3), "sm_103a");
  EXPECT_THAT(features_of("sm_90a"), ElementsAre("sm_90a", "wgmma", "tma", "cluster"));
  EXPECT_THAT(features_of("sm_80"), ElementsAre("sm_80"));
  EXPECT_THAT(features_of("sm_100a"), ElementsAre("sm_100a"));
  EXPECT_THAT(features_of("?"), ElementsAre("?"));
  EXPECT_TRUE(parse_architecture(kUsualTarget));
}

}  // namespace
}  // namespace ridge::record
