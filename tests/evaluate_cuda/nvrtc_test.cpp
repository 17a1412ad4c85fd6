// Every CUDA source of this library compiles with NVRTC, which is what runs it: tools/check_kernels.py asks nvcc, which
// has headers and intrinsics that NVRTC lacks. Needs no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "base/embedded.h"
#include "base/files.h"
#include "evaluate/cuda/check_module.h"
#include "ops/cuda/kernels.h"
#include "ops/device_check.h"
#include "ops/op.h"
#include "ops/shipped_builds.h"
#include "toolchain/device_build.h"

namespace ridge::evaluate::cuda {
std::span<const EmbeddedFile> ceiling_files();
}  // namespace ridge::evaluate::cuda

namespace ridge::ops {
std::span<const Operator> skeleton_operators();  // generated, see tests/skeleton_op
}

namespace ridge::evaluate {
namespace {

constexpr const char* kArch = "sm_90a";

// One build of each device source that an operator launches, of each operator.
std::map<std::string, ops::KernelBuild> launched() {
  ops::DeviceInfo device;
  device.backend = Backend::kCuda;
  device.name = "a Hopper GPU";
  device.arch = kArch;
  device.features = {kArch, "wgmma", "tma", "cluster"};
  device.multiprocessors = 132;
  std::map<std::string, ops::KernelBuild> builds;
  for (const ops::Operator* const op : ops::operators()) {
    std::vector<record::Case> cases = op->cases(ops::CaseSet::kBench, Backend::kCuda);
    const std::vector<record::Case> edges = op->cases(ops::CaseSet::kCheck, Backend::kCuda);
    cases.insert(cases.end(), edges.begin(), edges.end());
    for (const record::Case& one : cases) {
      const Result<ops::Problem> problem = op->bind(one);
      if (!problem) continue;
      for (const ops::Implementation& implementation : op->implementations) {
        if (!implementation.kernels || ops::why_not(implementation, *problem, device)) continue;
        for (ops::KernelBuild& build : implementation.kernels(*problem, device))
          builds.emplace(op->name + ": " + build.source, std::move(build));
      }
    }
  }
  return builds;
}

class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    auto found = toolchain::find_nvrtc();
    if (!found) GTEST_SKIP() << found.error().text();
    compiler_ = *found;
    auto directory = TempDir::create("ridge-nvrtc");
    ASSERT_TRUE(directory);
    directory_.emplace(std::move(*directory));
  }

  void compile(const std::string& name, const toolchain::DeviceCode& code) {
    toolchain::BuildOptions options;
    options.cache_directory = directory_->path();
    const auto built = toolchain::build_device(code, *compiler_, options);
    ASSERT_TRUE(built.ok()) << name << ": " << built.error().text();
    EXPECT_TRUE(built->ok()) << name << ": " << built->error << "\n" << built->evidence.log;
    EXPECT_FALSE(toolchain::serialised(*built)) << name;
  }
  static toolchain::DeviceCode text(const std::string& source, std::vector<std::string> defines = {}) {
    toolchain::DeviceCode code;
    code.files = {{"source.cu", source}};
    code.defines = std::move(defines);
    return code;
  }

  std::shared_ptr<const toolchain::DeviceCompiler> compiler_;
  std::optional<TempDir> directory_;
};

TEST_F(Nvrtc, CompilesEverySourceOfAnOperator) {
  std::set<std::string> seen;
  for (const auto& [name, build] : launched()) {
    compile(name, ops::device_code(build, kArch));
    seen.insert(build.source);
  }
  EXPECT_GT(seen.size(), 3u);
  const Result<record::ShippedBuilds> described = ops::shipped_builds();
  ASSERT_TRUE(described) << described.error().text();
  for (const EmbeddedFile& file : ops::device_sources()) {
    const std::string path(file.path);
    if (!path.ends_with(".cu") || seen.contains(path)) continue;
    const std::string name = path.substr(std::string("ops/").size());
    if (name.ends_with("_check.cu")) continue;  // CompilesTheChecksOfOperators
    // No operator launches it with these cases.
    const auto built = std::find_if(described->builds.begin(), described->builds.end(),
                                    [&](const record::ShippedBuild& one) { return one.source == path; });
    ASSERT_NE(built, described->builds.end()) << path << " is launched by no operator and described by no kernel";
    compile(name, ops::device_code({path, built->defines}, kArch));
  }
}

// Checks on the GPU, each in the text that the operator makes of its files, up to where templates are instantiated.
TEST_F(Nvrtc, CompilesTheChecksOfOperators) {
  std::map<std::string, std::string> checks;  // source to the operator that has it
  for (const ops::Operator* const op : ops::operators()) {
    if (op->device_check) checks.emplace(op->device_check->source, op->name);
  }
  for (const auto& [source, name] : checks) {
    toolchain::DeviceCode code = text(source);
    code.flags = {"-fdevice-syntax-only"};  // the machine code takes minutes, and tools/check_kernels.py makes it
    compile("the check of " + name, code);
  }
  for (const EmbeddedFile& file : ops::device_sources()) {
    if (!file.path.ends_with("_check.cu")) continue;
    EXPECT_TRUE(
        std::ranges::any_of(checks, [&](const auto& one) { return one.first.find(file.text) != std::string::npos; }))
        << file.path << " is in the check of no operator";
  }
}

// The operator to copy: its kernel by its description, and the check that is made of its row model.
TEST_F(Nvrtc, CompilesTheSkeleton) {
  ops::add_operators(ops::skeleton_operators());
  const ops::Operator* const op = *ops::find_operator("scale_backward");
  const auto one = std::find_if(op->implementations.begin(), op->implementations.end(),
                                [](const ops::Implementation& each) { return each.backend == Backend::kCuda; });
  ASSERT_NE(one, op->implementations.end());
  for (const char* words : {"alpha=3 gain=0 wanted=dx", "alpha=0.3 gain=1 wanted=dgain", "gain=1 wanted=both"}) {
    const ops::Problem problem = *op->bind(*record::parse_case(std::string("scale_backward ") + words));
    EXPECT_EQ(one->supports(problem, {}), std::nullopt);
    for (const ops::KernelBuild& build : one->kernels(problem, {})) compile(words, ops::device_code(build, kArch));
    EXPECT_EQ(one->kernels(problem, {}).size(), 1u);
  }
  compile("check", text(op->device_check->source));
}

TEST_F(Nvrtc, CompilesTheHarness) {
  compile("harness.cu", text(cuda::harness_source()));
  compile("ceilings.cu", text(std::string(cuda::ceiling_files().front().text), {"UNROLL=4"}));
}

}  // namespace
}  // namespace ridge::evaluate
