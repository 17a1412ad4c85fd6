// A CUDA candidate on a real GPU: source and plan to result, and what the executor refuses before it launches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.h"
#include "cuda/gpu_operands.h"
#include "device/cuda/plan.h"
#include "ops/described_kernel.h"
#include "places.h"
#include "toolchain/device_build.h"

namespace ridge::testing {
namespace {

namespace gpu = device::cuda;
using ::testing::HasSubstr;

// Beside the program where it was carried to another machine, else in the source tree.
std::string candidate_file() {
  const char* folder = std::getenv("RIDGE_CANDIDATES");
  return (folder == nullptr ? source_dir().string() + "/data/candidates" : std::string(folder)) + "/gemm_bf16_tiled.cu";
}

class LaunchPlanOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = *gpu::Device::open(0);
    auto stream = gpu::Stream::create(*device_);
    ASSERT_TRUE(stream);
    stream_.emplace(std::move(*stream));
    auto directory = TempDir::create("ridge-plan-test");
    ASSERT_TRUE(directory);
    directory_.emplace(std::move(*directory));
  }

  record::Candidate candidate(const std::string& source) {
    record::Candidate made;
    made.op = "gemm";
    made.backend = "cuda";
    made.sources = {{"candidate.cu", source}};
    return made;
  }

  Result<gpu::Module> build(const record::Candidate& wanted) {
    RIDGE_TRY(compiler, toolchain::find_device_compiler());
    toolchain::BuildOptions options;
    options.cache_directory = directory_->path();
    RIDGE_TRY(built, toolchain::build_device_candidate(wanted, device_->info().arch, *compiler, options));
    if (!built.ok()) return Error{ErrorCode::kToolFailed, built.error + "\n" + built.evidence.log, ""};
    return gpu::Module::load(*device_, built.cubin);
  }

  record::PlanFacts facts(const record::Candidate& wanted, const ops::Problem& problem,
                          const std::vector<TensorView>& views) {
    record::PlanFacts made = ops::plan_facts(problem, views);
    const auto defines = *record::define_values(wanted);
    made.values.insert(defines.begin(), defines.end());
    made.values["sm_count"] = device_->info().multiprocessors;
    return made;
  }

  const gpu::Device* device_ = nullptr;
  std::optional<gpu::Stream> stream_;
  std::optional<TempDir> directory_;
};

TEST_F(LaunchPlanOnGpu, TheShippedCandidateIsRightInEveryLayout) {
  const auto source = read_file(candidate_file());
  ASSERT_TRUE(source) << source.error().text();
  const record::Candidate tiled = candidate(*source);
  const auto module = build(tiled);
  ASSERT_TRUE(module) << module.error().text();
  const auto plan = record::launch_plan(tiled);
  ASSERT_TRUE(plan) << plan.error().text();
  const ops::Operator& op = **ops::find_operator("gemm");
  for (const char* words :
       {"m=100 n=200 k=300 dtype=bf16", "m=65 n=63 k=17 dtype=bf16 layout=nt", "m=64 n=128 k=64 dtype=bf16 layout=tn",
        "m=7 n=70 k=33 dtype=bf16 layout=tt accumulate=1", "m=0 n=5 k=3 dtype=bf16", "m=5 n=6 k=0 dtype=bf16"}) {
    const ops::Problem problem = *op.bind(*record::parse_case(std::string("gemm ") + words));
    for (const Layout& layout : {kPacked, kAwkward}) {
      const Operands before = make_operands(problem, layout, 9);
      Operands after = make_operands(problem, layout, 9);
      const auto operands = GpuOperands::upload(*device_, after, stream_->handle());
      ASSERT_TRUE(operands);
      const auto resolved = record::resolve(*plan, facts(tiled, problem, operands->views()));
      ASSERT_TRUE(resolved) << resolved.error().text();
      const auto prepared = gpu::PreparedPlan::prepare(*module, *resolved, device_->info());
      ASSERT_TRUE(prepared) << prepared.error().text();
      std::vector<void*> addresses;
      for (const TensorView& view : operands->views()) addresses.push_back(view.data);
      const auto bound = prepared->bind(addresses, {});
      ASSERT_TRUE(bound) << bound.error().text();
      const Status launched = bound->launch(stream_->handle());
      ASSERT_TRUE(launched) << launched.error().text();
      ASSERT_TRUE(operands->download(after, stream_->handle()));
      EXPECT_EQ(judge(op, problem, before, after, 9), "") << words << ", " << layout.name;
    }
  }
}

// Structs, numbers of every width, a workspace that is cleared, two kernels in order, and a tensor map.
constexpr const char* kParts = R"cu(
#include "ridge/kernel/tma.cuh"
struct Pair { float* data; int count; };
extern "C" __global__ void sum(const float* in, Pair pair, long long n, double scale, unsigned* visits) {
  atomicAdd(visits, 1u);
  float total = 0;
  for (long long i = 0; i < n; ++i) total += in[i];
  pair.data[0] = total * static_cast<float>(scale) + static_cast<float>(pair.count);
}
extern "C" __global__ void finish(float* out, const float* part, const unsigned* visits, float add) {
  out[0] = part[0] + add + static_cast<float>(*visits) * 1000.0f;
}
/* ridge-launch
[[workspace]]
name = "part"
bytes = 4
[[workspace]]
name = "visits"
bytes = 4
zero = true
[[kernel]]
symbol = "sum"
grid = [1]
block = [1]
args = [{ operand = "a" }, { struct = [{ workspace = "part" }, { i32 = "m" }] }, { i64 = "m * k" }, { f64 = "1 / 2" }, { workspace = "visits" }]
[[kernel]]
symbol = "finish"
grid = [1]
block = [1]
args = [{ operand = "c" }, { workspace = "part" }, { workspace = "visits" }, { f32 = 0.25 }]
*/
)cu";

TEST_F(LaunchPlanOnGpu, ArgumentsArriveAsTheKernelsReadThem) {
  const record::Candidate parts = candidate(kParts);
  const auto module = build(parts);
  ASSERT_TRUE(module) << module.error().text();
  const auto plan = record::launch_plan(parts);
  ASSERT_TRUE(plan) << plan.error().text();
  const ops::Operator& op = **ops::find_operator("gemm");
  const ops::Problem problem = *op.bind(*record::parse_case("gemm m=3 n=1 k=4"));
  Operands host = make_operands(problem, kPacked, 1);
  host.all[0].assign(std::vector<double>(12, 2.0));
  const auto operands = GpuOperands::upload(*device_, host, stream_->handle());
  ASSERT_TRUE(operands);
  const auto resolved = record::resolve(*plan, facts(parts, problem, operands->views()));
  ASSERT_TRUE(resolved) << resolved.error().text();
  const auto prepared = gpu::PreparedPlan::prepare(*module, *resolved, device_->info());
  ASSERT_TRUE(prepared) << prepared.error().text();
  EXPECT_THAT(prepared->workspace_bytes(), ::testing::ElementsAre(4, 4));
  const auto part = gpu::Buffer::allocate(*device_, 4), visits = gpu::Buffer::allocate(*device_, 4);
  std::vector<void*> addresses;
  for (const TensorView& view : operands->views()) addresses.push_back(view.data);
  const std::vector<void*> workspaces = {part->data(), visits->data()};
  const auto bound = prepared->bind(addresses, workspaces);
  ASSERT_TRUE(bound);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(bound->launch(stream_->handle()));
  ASSERT_TRUE(operands->download(host, stream_->handle()));
  EXPECT_EQ(host.all[2].values()[0], 24.0 * 0.5 + 3 + 0.25 + 1000.0) << "the cleared workspace counts one visit a call";
  EXPECT_FALSE(prepared->bind(addresses, {})) << "a workspace is missing";
}

// Memory of an operand is cleared before every call, and a number follows the scalars of the call.
TEST_F(LaunchPlanOnGpu, ClearsAndScalarsAreOfEveryCall) {
  const record::Candidate added = candidate(R"cu(
extern "C" __global__ void add(float* out, float number) { out[0] += number; }
/* ridge-launch
[[clear]]
operand = "c"
bytes = 4
[[kernel]]
symbol = "add"
grid = [1]
block = [1]
args = [{ operand = "c" }, { f32 = "m * scale" }]
*/
)cu");
  const auto module = build(added);
  ASSERT_TRUE(module) << module.error().text();
  const ops::Problem problem = *(*ops::find_operator("gemm"))->bind(*record::parse_case("gemm m=3 n=1 k=4"));
  Operands host = make_operands(problem, kPacked, 1);
  const auto operands = GpuOperands::upload(*device_, host, stream_->handle());
  ASSERT_TRUE(operands);
  record::PlanFacts all = facts(added, problem, operands->views());
  all.scalars = {{"scale", 0.5}};
  const auto resolved = record::resolve(*record::launch_plan(added), all);
  ASSERT_TRUE(resolved) << resolved.error().text();
  const auto prepared = gpu::PreparedPlan::prepare(*module, *resolved, device_->info());
  ASSERT_TRUE(prepared) << prepared.error().text();
  std::vector<void*> addresses;
  for (const TensorView& view : operands->views()) addresses.push_back(view.data);
  auto bound = prepared->bind(addresses, {});
  ASSERT_TRUE(bound) << bound.error().text();
  const auto result = [&] {
    EXPECT_TRUE(bound->launch(stream_->handle()));
    EXPECT_TRUE(operands->download(host, stream_->handle()));
    return host.all[2].values()[0];
  };
  EXPECT_EQ(result(), 1.5);
  EXPECT_EQ(result(), 1.5) << "cleared again";
  for (const double scale : {0.25, 0.25, 2.0, 0.5}) {
    bound->set_scalars(std::array{scale});
    EXPECT_EQ(result(), 3 * scale);
  }
}

TEST_F(LaunchPlanOnGpu, APlanThatDoesNotFitItsKernelIsRefusedBeforeALaunch) {
  const auto refusal = [&](const std::string& kernel) {
    const record::Candidate made = candidate(
        "extern \"C\" __global__ void __launch_bounds__(128) k(float* x, int n) { if (n) x[0] = n; }\n/* "
        "ridge-launch\n" +
        kernel + "\n*/\n");
    const auto module = build(made);
    EXPECT_TRUE(module) << module.error().text();
    const ops::Operator& op = **ops::find_operator("gemm");
    const ops::Problem problem = *op.bind(*record::parse_case("gemm m=3 n=1 k=4"));
    const Operands host = make_operands(problem, kPacked, 1);
    const auto resolved = record::resolve(*record::launch_plan(made), facts(made, problem, host.views()));
    EXPECT_TRUE(resolved);
    const auto prepared = gpu::PreparedPlan::prepare(*module, *resolved, device_->info());
    return prepared ? std::string("no refusal") : prepared.error().text();
  };
  const std::string head = "[[kernel]]\nsymbol = \"k\"\ngrid = [1]\n",
                    args = "args = [{ operand = \"c\" }, { i32 = 1 }]";
  EXPECT_EQ(refusal(head + "block = [128]\n" + args), "no refusal");
  EXPECT_THAT(refusal(head + "block = [256]\n" + args), HasSubstr("block of 256 threads, but with its"));
  EXPECT_THAT(refusal(head + "block = [32]\nshared = 999999\n" + args), HasSubstr("999999 bytes of dynamic shared"));
  EXPECT_THAT(refusal(head + "block = [32]\ncluster = [2]\n" + args), HasSubstr("not divisible by the cluster"));
  EXPECT_THAT(refusal("[[kernel]]\nsymbol = \"other\"\ngrid = [1]\nblock = [32]\n" + args),
              HasSubstr("no kernel \"other\""));
  EXPECT_THAT(refusal(head + "block = [32]\nargs = [{ operand = \"c\" }]"),
              HasSubstr("gives 1 arguments, the kernel has 2"));
  EXPECT_THAT(refusal(head + "block = [32]\nargs = [{ operand = \"c\" }, { i64 = 1 }]"),
              HasSubstr("argument 1 of the plan has 8 bytes, the kernel's parameter 4"));
}

}  // namespace
}  // namespace ridge::testing
