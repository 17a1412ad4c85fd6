// Dispatch for a CUDA stream, as far as it shows without a GPU: the walk, its refusals, and errors instead of crashes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/files.h"
#include "device/cuda/backend.h"
#include "dispatch/choose.h"
#include "dispatch/launch.h"
#include "dispatch/tuned.h"
#include "ops/cuda/device.h"
#include "ops/cuda/kernel_packs.h"
#include "ops/cuda/kernels.h"
#include "record/kernel_pack.h"
#include "ridge/ops/gemm.h"

namespace ridge::dispatch {
namespace {

using ::testing::HasSubstr;

record::ExplainRow row_of(const record::Explanation& explanation, std::string_view name) {
  for (const record::ExplainRow& row : explanation.rows) {
    if (row.implementation == name) return row;
  }
  ADD_FAILURE() << name << " is not explained";
  return {};
}

TEST(CudaDispatch, WalksTheSameListAndNamesWhyEachCannotRun) {
  const auto explanation =
      explain(*record::parse_case("gemm m=8192 n=8192 k=8192 dtype=bf16 layout=nt"), Stream::cuda(nullptr));
  ASSERT_TRUE(explanation) << explanation.error().text();
  EXPECT_EQ(row_of(*explanation, "cpu_simd").reason, "runs on cpu, the stream is cuda");
  for (const char* name : {"cuda_wgmma", "cuda_cublaslt", "cuda_simt", "cuda_reference"}) {
    const record::ExplainRow row = row_of(*explanation, name);
    if (device::cuda::list_gpus()) continue;
    EXPECT_FALSE(row.supported);
    EXPECT_THAT(row.reason, HasSubstr("no CUDA driver"));
  }
}

TEST(CudaDispatch, ACallWithoutAGpuIsAnErrorThatSaysSo) {
  if (device::cuda::list_gpus()) GTEST_SKIP() << "this machine has a GPU: tests/cuda runs the calls";
  float memory[12] = {};
  GemmArgs args;
  args.a = TensorView::contiguous(memory, DType::kF32, {2, 2});
  args.b = TensorView::contiguous(memory + 4, DType::kF32, {2, 2});
  args.c = TensorView::contiguous(memory + 8, DType::kF32, {2, 2});
  const Status status = gemm(args, Stream::cuda(nullptr));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(status.error().text(), HasSubstr("nothing can run"));
  EXPECT_THAT(status.error().text(), HasSubstr("no CUDA driver"));
  ASSERT_TRUE(force("gemm", "cuda_wgmma"));
  const Status forced_status = gemm(args, Stream::cuda(nullptr));
  unforce("gemm");
  ASSERT_FALSE(forced_status);
  EXPECT_THAT(forced_status.error().text(), HasSubstr("cuda_wgmma is forced by code but cannot run"));
}

// What implementations answer for a GPU that is not here: their own reasons, from the problem alone.
class Hopper : public ::testing::Test {
 protected:
  static ops::Refusal ask(const char* implementation, const char* words, std::vector<std::uint8_t> alignment = {},
                          const char* name = "gemm") {
    const ops::Operator& op = **ops::find_operator(name);
    ops::Problem problem = *op.bind(*record::parse_case(fmt::format("{} {}", name, words)));
    problem.alignment = alignment;
    return ops::why_not(**ops::find_implementation(op, implementation), problem, gpu_);
  }
  static inline const ops::DeviceInfo gpu_ = {
      Backend::kCuda, "a Hopper GPU", "sm_90a", {"sm_90a", "wgmma", "tma"}, "", "CUDA 13.0", 132};
};

TEST_F(Hopper, WgmmaTakesWhatTheCopyEngineCanAddressAndNamesTheRest) {
  EXPECT_FALSE(ask("cuda_wgmma", "m=100 n=104 k=64 dtype=bf16"));
  EXPECT_FALSE(ask("cuda_wgmma", "m=100 n=0 k=63 dtype=bf16"));
  EXPECT_THAT(*ask("cuda_wgmma", "m=64 n=64 k=64 dtype=f32"), HasSubstr("TF32 is never chosen silently"));
  EXPECT_THAT(*ask("cuda_wgmma", "m=64 n=64 k=63 dtype=bf16 layout=nt"),
              HasSubstr("rows of A start on multiples of 2 bytes"));
  EXPECT_THAT(*ask("cuda_wgmma", "m=64 n=64 k=64 dtype=bf16", {16, 8, 16}),
              HasSubstr("rows of B start on multiples of 8"));
  // Rows padded by the caller: the dense size would not do, the memory does.
  EXPECT_FALSE(ask("cuda_wgmma", "m=64 n=64 k=63 dtype=bf16 layout=nt", {16, 16, 2}));
}

TEST_F(Hopper, CopiesAreMadeWhereRowsDoNotStartOn16Bytes) {
  for (const char* words :
       {"m=4096 n=4096 k=4095 dtype=bf16 layout=nt", "m=4096 n=4095 k=4096 dtype=f16 layout=nn",
        "m=4095 n=4096 k=4096 dtype=bf16 layout=tn out=f32 accumulate=1", "m=1000 n=77 k=4095 dtype=bf16 layout=tt",
        "m=129 n=127 k=650 dtype=bf16 layout=nt batch=3 activation=silu"}) {
    EXPECT_TRUE(ask("cuda_wgmma", words)) << words;
    EXPECT_EQ(ask("cuda_wgmma_padded", words).value_or(""), "") << words;
  }
  EXPECT_EQ(ask("cuda_wgmma_padded", "m=64 n=64 k=640 dtype=bf16 layout=nt", {16, 8, 16}).value_or(""), "");
  EXPECT_THAT(*ask("cuda_wgmma_padded", "m=64 n=64 k=64 dtype=bf16 layout=nt"), HasSubstr("nothing to copy"));
  EXPECT_THAT(*ask("cuda_wgmma_padded", "m=64 n=64 k=63 dtype=f32"), HasSubstr("TF32 is never chosen silently"));
  EXPECT_THAT(*ask("cuda_wgmma_padded", "m=33 n=35 k=3 dtype=bf16 layout=nt"), HasSubstr("the plain kernel"));
  for (const char* words :
       {"m=4094 n=4096 k=4096 scaling=block", "m=4096 n=4096 k=4095", "m=4095 n=4093 k=4095 scaling=vector out=f32",
        "m=513 n=67 k=1001 scaling=row sums=fast bias=1"}) {
    EXPECT_TRUE(ask("cuda_wgmma_fp8", words, {}, "gemm_fp8")) << words;
    EXPECT_EQ(ask("cuda_wgmma_fp8_padded", words, {}, "gemm_fp8").value_or(""), "") << words;
  }
  EXPECT_THAT(*ask("cuda_wgmma_fp8_padded", "m=4094 n=4096 k=4096 scaling=row", {}, "gemm_fp8"),
              HasSubstr("nothing to copy"));
  EXPECT_THAT(*ask("cuda_wgmma_fp8_padded", "m=512 n=512 k=511 layout=nn", {}, "gemm_fp8"),
              HasSubstr("must have K contiguous"));
}

TEST_F(Hopper, WgmmaNamesTheConfigurationsThatFitItsOwnChoiceFirst) {
  const ops::Operator& op = **ops::find_operator("gemm");
  const ops::Implementation& own = **ops::find_implementation(op, "cuda_wgmma");
  const auto names = [&](const char* words) {
    const ops::Problem problem = *op.bind(*record::parse_case(fmt::format("gemm {}", words)));
    std::vector<std::string> found;
    for (const int i : own.promising(problem, gpu_)) found.push_back(own.configurations[static_cast<std::size_t>(i)]);
    return found;
  };
  const std::vector<std::string> plain = names("m=4096 n=4096 k=4096 dtype=bf16 layout=nt");
  EXPECT_GT(plain.size(), 10u);
  EXPECT_EQ(std::set<std::string>(plain.begin(), plain.end()).size(), plain.size());
  EXPECT_THAT(plain, ::testing::Each(::testing::Not(HasSubstr("promote")))) << "those are for 8-bit operands";
  // Columns of 96 do not fit an operand with n contiguous.
  EXPECT_THAT(plain, ::testing::Contains("pp_256x96_m2"));
  EXPECT_THAT(names("m=4096 n=4096 k=4096 dtype=bf16 layout=nn"), ::testing::Not(::testing::Contains("pp_256x96_m2")));
  EXPECT_THAT(own.version(), HasSubstr("configurations "));
}

// A version that is written in another way voids a table as surely as other configurations do.
TEST_F(Hopper, TheShippedLinesAboutOurKernelsCount) {
  std::size_t found = 0;
  for (const EmbeddedFile& file : shipped_tables()) {
    if (!file.path.ends_with(".jsonl")) continue;
    const auto lines = record::parse_tuned(file.text, file.path);
    ASSERT_TRUE(lines) << lines.error().text();
    for (const record::TunedChoice& line : *lines) {
      if (!line.implementation.starts_with("cuda_wgmma")) continue;
      const ops::Operator& op = **ops::find_operator(line.bucket.op);
      TunedTable table;
      table.add(line);
      ops::DeviceInfo device = gpu_;
      device.name = line.device;
      EXPECT_NE(table.find(op, *op.bind(line.bucket), device), nullptr) << record::tuned_line(line);
      ++found;
    }
  }
  EXPECT_GT(found, 300u);
}

TEST_F(Hopper, EveryImplementationOfOursNamesTheBuildsItLoads) {
  for (const ops::Operator* op : ops::operators()) {
    for (const ops::Implementation& one : op->implementations) {
      if (one.backend != Backend::kCuda || one.vendor || one.is_reference) continue;
      ASSERT_TRUE(one.kernels) << op->name << " " << one.name;
      for (const record::Case& wanted : op->cases(ops::CaseSet::kBench, Backend::kCuda)) {
        const ops::Problem problem = *op->bind(wanted);
        if (ops::why_not(one, problem, gpu_)) continue;
        const std::vector<ops::KernelBuild> builds = one.kernels(problem, gpu_);
        ASSERT_FALSE(builds.empty()) << one.name << " " << wanted.text();
        for (const ops::KernelBuild& build : builds) {
          const auto code = ops::device_code(build, gpu_.arch);
          ASSERT_FALSE(code.files.empty());
          EXPECT_EQ(code.files[0].path, build.source) << "the source is inside the library";
        }
      }
    }
  }
}

// The build follows the configuration that the problem names.
TEST_F(Hopper, TheBuildIsThatOfTheConfiguration) {
  const ops::Operator& op = **ops::find_operator("gemm");
  const ops::Implementation& own = **ops::find_implementation(op, "cuda_wgmma");
  ops::Problem problem = *op.bind(*record::parse_case("gemm m=4096 n=4096 k=4096 dtype=bf16 layout=nt"));
  std::set<std::vector<std::string>> seen;
  for (const int configuration : own.promising(problem, gpu_)) {
    problem.configuration = configuration;
    seen.insert(own.kernels(problem, gpu_).at(0).defines);
  }
  EXPECT_EQ(seen.size(), own.promising(problem, gpu_).size());
  const int first = own.promising(problem, gpu_).at(0);
  problem.configuration = first;
  const auto named = own.kernels(problem, gpu_).at(0).defines;
  problem.configuration = -1;
  EXPECT_EQ(own.kernels(problem, gpu_).at(0).defines, named) << "the first is its own choice";
}

TEST_F(Hopper, EightBitProductsGoWhereTheyCanRunAndEachSaysWhatItLacks) {
  const auto ask_fp8 = [](const char* implementation, const char* words, std::vector<std::uint8_t> alignment = {}) {
    return ask(implementation, words, alignment, "gemm_fp8");
  };
  for (const char* words : {"m=512 n=768 k=640", "m=512 n=768 k=640 scaling=row sums=fast",
                            "m=512 n=768 k=640 scaling=block", "m=512 n=768 k=640 scaling=vector accumulate=1 out=f32",
                            "m=64 n=0 k=63 scaling=block", "m=512 n=768 k=640 dtype=e5m2_e4m3fn accumulate=1"}) {
    EXPECT_EQ(ask_fp8("cuda_wgmma_fp8", words).value_or(""), "") << words;
    EXPECT_FALSE(ask_fp8("cuda_simt_fp8", words)) << words;
  }
  EXPECT_THAT(*ask_fp8("cuda_wgmma_fp8", "m=64 n=64 k=64 sums=f32"), HasSubstr("keeps about 14 bits"));
  EXPECT_THAT(*ask_fp8("cuda_wgmma_fp8", "m=64 n=64 k=64 layout=nn"), HasSubstr("must have K contiguous"));
  EXPECT_THAT(*ask_fp8("cuda_wgmma_fp8", "m=64 n=64 k=64 scaling=mx"), HasSubstr("MX scales"));
  EXPECT_THAT(*ask_fp8("cuda_wgmma_fp8", "m=64 n=64 k=72"), HasSubstr("rows of A start on multiples of 8 bytes"));
  EXPECT_THAT(*ask_fp8("cuda_wgmma_fp8", "m=66 n=64 k=256 scaling=block"), HasSubstr("align_scale_a=8"));
  EXPECT_THAT(*ask_fp8("cuda_wgmma_fp8", "m=66 n=66 k=256 scaling=vector", {16, 16, 16, 8, 16}),
              HasSubstr("align_scale_b=8"));
  EXPECT_FALSE(ask_fp8("cuda_wgmma_fp8", "m=66 n=64 k=256 scaling=block", {16, 16, 16, 4, 16}));
  for (const char* words : {"m=66 n=64 k=72 layout=tt scaling=mx sums=f32", "m=7 n=3 k=5 scaling=vector"}) {
    EXPECT_FALSE(ask_fp8("cuda_simt_fp8", words)) << words;
  }
  EXPECT_THAT(*ask_fp8("cuda_cublaslt_fp8", "m=64 n=64 k=64 layout=tn"), HasSubstr("in layout nt only"));
  EXPECT_THAT(*ask_fp8("cuda_cublaslt_fp8", "m=64 n=64 k=64 scaling=mx"), HasSubstr("from Blackwell on"));
  EXPECT_THAT(*ask_fp8("cuda_cublaslt_fp8", "m=64 n=64 k=64 dtype=e5m2"), HasSubstr("wants e4m3fn"));
  EXPECT_THAT(*ask_fp8("cuda_cublaslt_fp8", "m=64 n=60 k=64"), HasSubstr("n=60 k=64"));
  EXPECT_THAT(*ask_fp8("cuda_cublaslt_fp8", "m=10 n=64 k=128 scaling=vector"), HasSubstr("m=10: cuBLASLt reads the"));
  EXPECT_THAT(*ask_fp8("cuda_cublaslt_fp8", "m=64 n=64 k=256 scaling=block"),
              HasSubstr("k=256: cuBLASLt reads the rows of 128x128 scales in fours"));
  EXPECT_THAT(*ask_fp8("cuda_cublaslt_fp8", "m=64 n=64 k=64", {16, 1, 16, 16, 16}),
              HasSubstr("rows of b start on multiples of 1 bytes"));
}

TEST_F(Hopper, QuantisersTakeEveryGranularityAndAlignment) {
  for (const char* words : {"rows=7 cols=9", "rows=7 cols=9 scaling=row copies=both", "rows=300 cols=200 scaling=mx",
                            "rows=1 cols=131 scaling=128x128 copies=column rounding=stochastic", "rows=0 cols=5"}) {
    EXPECT_FALSE(ask("cuda_quantize", words, {1, 1, 1, 1, 1}, "quantize")) << words;
  }
  EXPECT_FALSE(ask("cuda_dequantize", "rows=7 cols=9 scaling=1x128", {1, 4, 2}, "dequantize"));
  const ops::Operator& op = **ops::find_operator("quantize");
  const ops::Problem problem = *op.bind(*record::parse_case("quantize"));
  const ops::DeviceInfo ampere = {Backend::kCuda, "an Ampere GPU", "sm_80", {"sm_80"}, ""};
  EXPECT_THAT(*ops::why_not(**ops::find_implementation(op, "cuda_quantize"), problem, ampere),
              HasSubstr("an Ampere GPU (sm_80) has no 8-bit floats"));
}

TEST_F(Hopper, SimtTakesEverythingAndTheReferenceWhatIsSmall) {
  EXPECT_FALSE(ask("cuda_simt", "m=1 n=3 k=5 dtype=f16", {2, 2, 2}));
  EXPECT_FALSE(ask("cuda_reference", "m=64 n=64 k=64"));
  EXPECT_THAT(*ask("cuda_reference", "m=8192 n=8192 k=8192"), HasSubstr("the reference takes at most"));
}

TEST_F(Hopper, AnOlderGpuIsRefusedByName) {
  const ops::Operator& op = **ops::find_operator("gemm");
  const ops::Problem problem = *op.bind(*record::parse_case("gemm dtype=bf16"));
  const ops::DeviceInfo ampere = {Backend::kCuda, "an Ampere GPU", "sm_80", {"sm_80"}, ""};
  EXPECT_THAT(*ops::why_not(**ops::find_implementation(op, "cuda_wgmma"), problem, ampere),
              HasSubstr("an Ampere GPU (sm_80) has no wgmma"));
}

TEST_F(Hopper, GpusBesideItGetANamedAnswer) {
  const ops::DeviceInfo blackwell = {Backend::kCuda, "NVIDIA B200", "sm_100a", {"sm_100a"}, ""};
  const ops::DeviceInfo ada = {Backend::kCuda, "NVIDIA L40S", "sm_89", {"sm_89"}, ""};
  const auto refusal = [](const char* op_name, const char* implementation, const ops::DeviceInfo& gpu) {
    const ops::Operator& op = **ops::find_operator(op_name);
    const ops::Problem problem = *op.bind(*record::parse_case(std::string(op_name)));
    return ops::why_not(**ops::find_implementation(op, implementation), problem, gpu).value_or("");
  };
  EXPECT_EQ(refusal("gemm", "cuda_simt", blackwell), "");
  EXPECT_EQ(refusal("quantize", "cuda_quantize", blackwell), "");
  EXPECT_EQ(refusal("dequantize", "cuda_dequantize", blackwell), "");
  EXPECT_EQ(refusal("quantize", "cuda_quantize", ada), "");
  EXPECT_THAT(refusal("gemm", "cuda_wgmma", blackwell), HasSubstr("Hopper's (sm_90a); cuBLASLt runs its products"));
  EXPECT_THAT(refusal("gemm_fp8", "cuda_wgmma_fp8", ada), HasSubstr("cuBLASLt runs its products"));
}

// The same product on two devices: what the driver says of memory decides.
TEST_F(Hopper, TheCostModelLooksAtTheDevice) {
  const ops::Operator& op = **ops::find_operator("gemm");
  const ops::Implementation& own = **ops::find_implementation(op, "cuda_wgmma");
  const ops::Problem problem = *op.bind(*record::parse_case("gemm m=8192 n=8192 k=28672 dtype=bf16 layout=nt"));
  ops::DeviceInfo slow = gpu_, fast = gpu_;
  slow.memory_bandwidth = 2e12;
  fast.memory_bandwidth = 8e12;
  EXPECT_NE(own.promising(problem, slow)[0], own.promising(problem, fast)[0]);
  EXPECT_GT(own.expected_seconds(problem, own.promising(problem, slow)[0], slow),
            own.expected_seconds(problem, own.promising(problem, fast)[0], fast));
}

TEST(KernelPacks, OneThatCannotBeReadIsLeftOutAndNamed) {
  const auto folder = TempDir::create("ridge-packs");
  ASSERT_TRUE(folder);
  record::KernelPack pack;
  pack.header.arch = "sm_90a";
  record::PackedKernel kernel;
  kernel.key = "a key";
  pack.kernels.push_back(kernel);
  ASSERT_TRUE(write_file_durably(folder->path() / "a.pack", record::pack_text(pack, {"code"})));
  ASSERT_TRUE(write_file_durably(folder->path() / "b.pack", "something else\n"));
  const ops::KernelPacks packs = ops::KernelPacks::open({folder->path()});
  ASSERT_EQ(packs.unreadable().size(), 1u);
  EXPECT_THAT(packs.unreadable()[0], HasSubstr("b.pack"));
  const auto found = packs.find("a key");
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(*found, "code");
}

TEST(Alignment, IsOfTheAddressAndEveryRow) {
  TensorView view = TensorView::matrix(reinterpret_cast<void*>(std::uintptr_t{0x1000}), DType::kBf16, 4, 8, 8);
  EXPECT_EQ(ops::view_alignment(view), 16);
  view.stride[0] = 12;
  EXPECT_EQ(ops::view_alignment(view), 8);
  view.shape[0] = 1;
  EXPECT_EQ(ops::view_alignment(view), 16) << "a single row has no next one";
  view.data = reinterpret_cast<void*>(std::uintptr_t{0x1002});
  EXPECT_EQ(ops::view_alignment(view), 2);
}

}  // namespace
}  // namespace ridge::dispatch
