// Kernels that describe themselves: that the build made what the description says, and which of it a processor gets.
#include "ops/cpu_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "base/files.h"
#include "dispatch/choice.h"
#include "ops/op.h"
#include "places.h"
#include "record/kernel_description.h"

namespace ridge::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kSource =
    "/* ridge-kernel\nop = \"gemm\"\nrank = 70\n[configs]\n"
    "wide = { N = 16, instructions = \"avx512\", promoted = \"gemm_cpu_1, 1.24x\" }\n"
    "half = { N = 8, instructions = \"avx2\" }\n"
    "any = { }\n*/\n"
    "/* ridge-scope\ndtype = [\"f32\"]\nbatch = [1]\n*/\n"
    "/* ridge-tunables\n[[tunable]]\nname = \"N\"\nvalues = [1, 8, 16]\ndefault = 1\ntitle = \"lanes\"\n*/\n";

int called = 0;
int wide(const ridge_call*) { return called = 16, 0; }
int half(const ridge_call*) { return called = 8, 0; }
int any(const ridge_call*) { return called = 1, 0; }
int declines(const ridge_call*) { return 7; }

DeviceInfo processor(std::vector<std::string> features) {
  DeviceInfo device;
  device.features = std::move(features);
  return device;
}

Problem problem_of(std::string_view text) {
  return *(*find_operator("gemm"))->bind(*record::parse_case(std::string("gemm ") + std::string(text)));
}

Implementation kernel() {
  const KernelEntry entries[] = {{"wide", wide}, {"half", half}, {"any", any}};
  return cpu_kernel("cpu_test", kSource, entries);
}

TEST(CpuKernel, RunsWhatTheProcessorHasInstructionsFor) {
  const Implementation one = kernel();
  const Problem problem = problem_of("m=1 n=1 k=1");
  EXPECT_EQ(one.rank, 70);
  EXPECT_THAT(one.configurations, ElementsAre("wide", "half", "any"));
  EXPECT_THAT(one.promoted, ElementsAre("gemm_cpu_1, 1.24x", "", ""));
  const DeviceInfo small = processor({}), medium = processor({"avx2", "fma", "f16c"});
  EXPECT_THAT(one.promising(problem, small), ElementsAre(2));
  EXPECT_THAT(one.promising(problem, medium), ElementsAre(1, 2));
  EXPECT_THAT(one.promising(problem, processor({"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"})),
              ElementsAre(0, 1, 2));
  EXPECT_THAT(dispatch::why_not({&one, 0}, problem, medium).value_or(""),
              HasSubstr("configuration wide does not fit this call; those that do: half, any"));
}

TEST(CpuKernel, AConfigurationForOtherInstructionsIsNeverEntered) {
  const std::string source = "/* ridge-kernel\nop = \"gemm\"\n[configs]\nwide = { instructions = \"avx512\" }\n*/";
  const KernelEntry entries[] = {{"wide", wide}};
  const Implementation one = cpu_kernel("cpu_test", source, entries);
  EXPECT_THAT(one.supports(problem_of("m=1 n=1 k=1"), processor({"avx2"})).value_or(""),
              HasSubstr("none of its 1 configurations is for the instructions of this processor"));
}

TEST(CpuKernel, RefusesWhatItsScopeLeavesOut) {
  const Implementation one = kernel();
  EXPECT_FALSE(one.supports(problem_of("m=2 n=2 k=2"), processor({})).has_value());
  EXPECT_THAT(one.supports(problem_of("m=2 n=2 k=2 dtype=bf16"), processor({})).value_or(""), HasSubstr("bf16"));
  EXPECT_THAT(one.supports(problem_of("m=2 n=2 k=2 batch=3"), processor({})).value_or(""), HasSubstr("batch"));
}

TEST(CpuKernel, CallsTheConfigurationThatIsNamedAndReportsARefusedCall) {
  const Implementation one = kernel();
  Problem problem = problem_of("m=1 n=1 k=1");
  problem.configuration = 2;
  float x = 0;
  const TensorView view = TensorView::matrix(&x, DType::kF32, 1, 1, 1);
  const std::vector<TensorView> operands = {view, view, view};
  ASSERT_TRUE(one.run(problem, operands, Stream::cpu()).ok());
  EXPECT_EQ(called, 1);
  const KernelEntry entries[] = {{"wide", wide}, {"half", half}, {"any", declines}};
  const Status declined = cpu_kernel("cpu_test", kSource, entries).run(problem, operands, Stream::cpu());
  ASSERT_FALSE(declined.ok());
  EXPECT_THAT(declined.error().message, HasSubstr("cpu_test in configuration any declined the call with 7"));
}

// CMake reads the lines of [configs] at configure time, the library the whole description: they must mean the same.
TEST(CpuKernel, TheBuildDefinesWhatTheDescriptionSays) {
  const auto source = read_file(source_dir().string() + "/src/ops/gemm/cpu_plain.cpp");
  ASSERT_TRUE(source.ok());
  const auto kernel = record::parse_kernel(*source);
  ASSERT_TRUE(kernel.ok() && *kernel) << kernel.error().text();
  for (const record::KernelConfig& config : (*kernel)->configs) {
    const auto made = read_file(binary_dir().string() + "/generated/ridge_gemm_cpu_plain_" + config.name + ".cpp");
    ASSERT_TRUE(made.ok()) << config.name;
    std::map<std::string, std::int64_t> defined;
    std::istringstream words(*made);
    std::string word, name, value;
    while (words >> word) {
      if (word == "#define" && words >> name >> value && name != "ridge_kernel") defined[name] = std::stoll(value);
    }
    EXPECT_EQ(defined, config.values) << config.name;
  }
}

}  // namespace
}  // namespace ridge::ops
