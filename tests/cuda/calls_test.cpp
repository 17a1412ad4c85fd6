// Calls through the public entry points: which implementation runs, graphs, gradients, what a call costs the host, and
// what it leaves as it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include "cuda/gpu_operands.h"
#include "device/cuda/graph.h"
#include "device/cuda/plan.h"
#include "dispatch/choose.h"
#include "dispatch/launch.h"
#include "ops/cuda/kernels.h"
#include "ops/described_kernel.h"
#include "ridge/ops/gemm.h"

namespace ridge::testing {
namespace {

namespace gpu = device::cuda;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// ---- The public entry point

struct GemmOnGpu {
  GemmOnGpu(const char* words, const gpu::Stream& on) : stream(&on) {
    const ops::Operator& op = **ops::find_operator("gemm");
    problem = *op.bind(*record::parse_case(std::string("gemm ") + words));
    before = make_operands(problem, kPacked, 3);
    after = make_operands(problem, kPacked, 3);
    auto uploaded = GpuOperands::upload(the_device(), after, on.handle());
    device.emplace(std::move(*uploaded));
    args.a = device->views()[0];
    args.b = device->views()[1];
    args.c = device->views()[2];
    args.trans_a = problem.values[5] >= 2;
    args.trans_b = problem.values[5] % 2 == 1;
  }
  std::string judge_now() {
    if (const Status status = device->download(after, stream->handle()); !status) return status.error().text();
    return judge(**ops::find_operator("gemm"), problem, before, after, 3);
  }
  const gpu::Stream* stream;
  ops::Problem problem;
  Operands before, after;
  std::optional<GpuOperands> device;
  GemmArgs args;
};

class CudaGemm : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = gpu::Stream::create(the_device());
    ASSERT_TRUE(made);
    stream_.emplace(std::move(*made));
  }
  void TearDown() override { dispatch::unforce("gemm"); }
  std::optional<gpu::Stream> stream_;
};

TEST_F(CudaGemm, RunsOnTheBestImplementationOfTheDevice) {
  GemmOnGpu bf16("m=256 n=256 k=256 dtype=bf16 layout=nt", *stream_);
  ASSERT_TRUE(gemm(bf16.args, stream_->view()));
  EXPECT_EQ(bf16.judge_now(), "");
  const bool hopper = ops::device_info(stream_->view()).has("wgmma");
  EXPECT_EQ(dispatch::last_used("gemm"), hopper ? "cuda_wgmma" : "cuda_cublaslt");
  GemmOnGpu odd("m=33 n=35 k=37 dtype=bf16 layout=nt", *stream_);
  ASSERT_TRUE(gemm(odd.args, stream_->view()));
  EXPECT_EQ(odd.judge_now(), "");
  EXPECT_NE(dispatch::last_used("gemm"), "cuda_wgmma");
}

TEST_F(CudaGemm, RunsTheForcedOneOrSaysWhyNot) {
  GemmOnGpu call("m=64 n=64 k=64 dtype=bf16", *stream_);
  for (const char* name : {"cuda_simt", "cuda_cublaslt", "cuda_reference"}) {
    ASSERT_TRUE(dispatch::force("gemm", name));
    const Status status = gemm(call.args, stream_->view());
    ASSERT_TRUE(status) << status.error().text();
    EXPECT_EQ(dispatch::last_used("gemm"), name);
    EXPECT_EQ(call.judge_now(), "") << name;
  }
  ASSERT_TRUE(dispatch::force("gemm", "cpu_simd"));
  const Status wrong = gemm(call.args, stream_->view());
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().text(), HasSubstr("runs on cpu, the stream is cuda"));
}

TEST_F(CudaGemm, OperandsInHostMemoryAreAnErrorThatLeavesTheDeviceUsable) {
  GemmOnGpu call("m=80 n=112 k=48 dtype=bf16 layout=nt", *stream_);
  GemmArgs wrong = call.args;
  wrong.b.data = call.after.all[1].view().data;
  const Status status = gemm(wrong, stream_->view());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.error().text(), HasSubstr("operand b: the address"));
  EXPECT_THAT(status.error().text(), HasSubstr("copy the operand to the GPU, or call on Stream::cpu()"));
  ASSERT_TRUE(gemm(call.args, stream_->view()));
  EXPECT_EQ(call.judge_now(), "");
}

TEST_F(CudaGemm, ASingleRowMayHaveAnyStride) {
  GemmOnGpu call("m=1 n=128 k=63 dtype=bf16 layout=nn", *stream_);
  ASSERT_TRUE(gemm(call.args, stream_->view()));
  EXPECT_EQ(call.judge_now(), "");
}

TEST_F(CudaGemm, IsCapturedByAGraphOnceItWasCalled) {
  GemmOnGpu call("m=192 n=320 k=448 dtype=bf16 layout=nt", *stream_);
  const auto capture = [&] {
    return gpu::Graph::capture(the_device(),
                               [&](gpu::StreamHandle handle) { return gemm(call.args, Stream::cuda(handle)); });
  };
  std::thread([&] {  // a thread that has never called: nothing is prepared
    const auto cold = capture();
    ASSERT_FALSE(cold);
    EXPECT_THAT(cold.error().text(), HasSubstr("call it once with the same shapes and strides before the capture"));
  })
      .join();
  ASSERT_TRUE(gemm(call.args, stream_->view()));
  ASSERT_EQ(call.judge_now(), "");
  ASSERT_TRUE(gpu::fill_bytes(call.args.c.data, 0xff, 192 * 320 * 2, stream_->handle()));
  const auto warm = capture();
  ASSERT_TRUE(warm) << warm.error().text();
  EXPECT_EQ(warm->nodes(), 1u);
  ASSERT_TRUE(warm->launch(stream_->handle()));
  ASSERT_TRUE(stream_->synchronize());
  EXPECT_EQ(call.judge_now(), "");
}

// The copies of a captured call are in memory of the graph.
TEST_F(CudaGemm, OfCopiedRowsIsCapturedByAGraphToo) {
  GemmOnGpu call("m=192 n=320 k=447 dtype=bf16 layout=nt", *stream_);
  const ops::Implementation& padded = **ops::find_implementation(**ops::find_operator("gemm"), "cuda_wgmma_padded");
  if (const auto why = ops::why_not(padded, call.problem, ops::device_info(stream_->view()))) GTEST_SKIP() << *why;
  ASSERT_TRUE(dispatch::force("gemm", "cuda_wgmma_padded"));
  ASSERT_TRUE(gemm(call.args, stream_->view()));
  ASSERT_EQ(call.judge_now(), "");
  ASSERT_TRUE(gpu::fill_bytes(call.args.c.data, 0xff, 192 * 320 * 2, stream_->handle()));
  const auto graph = gpu::Graph::capture(
      the_device(), [&](gpu::StreamHandle handle) { return gemm(call.args, Stream::cuda(handle)); });
  ASSERT_TRUE(graph) << graph.error().text();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(graph->launch(stream_->handle()));
    ASSERT_TRUE(stream_->synchronize());
    EXPECT_EQ(call.judge_now(), "");
  }
}

// A workspace that two graphs shared would show here: each writes parts of sums into it while the other one runs.
TEST_F(CudaGemm, TwoGraphsOfOneStreamRunSideBySide) {
  const ops::Implementation& vendor = **ops::find_implementation(**ops::find_operator("gemm"), "cuda_cublaslt");
  GemmOnGpu first("m=64 n=64 k=65536 dtype=bf16 out=f32 layout=nt", *stream_);
  GemmOnGpu second("m=64 n=128 k=65536 dtype=bf16 out=f32 layout=nt", *stream_);
  if (const auto why = ops::why_not(vendor, first.problem, ops::device_info(stream_->view()))) GTEST_SKIP() << *why;
  ASSERT_TRUE(dispatch::force("gemm", "cuda_cublaslt"));
  const auto other = gpu::Stream::create(the_device());
  ASSERT_TRUE(other);
  std::vector<gpu::Graph> graphs;
  std::vector<std::vector<double>> alone;
  for (GemmOnGpu* const call : {&first, &second}) {
    ASSERT_TRUE(gemm(call->args, stream_->view()));  // prepared, from the pool of the stream
    ASSERT_EQ(call->judge_now(), "");
    alone.push_back(call->after.all.back().values());
    auto graph = gpu::Graph::capture(the_device(),
                                     [&](gpu::StreamHandle handle) { return gemm(call->args, Stream::cuda(handle)); });
    ASSERT_TRUE(graph) << graph.error().text();
    graphs.push_back(std::move(*graph));
  }
  constexpr int kTimes = 10000, kLooks = 100;
  for (int i = 0; i < kTimes; ++i) {
    ASSERT_TRUE(graphs[0].launch(stream_->handle()));
    ASSERT_TRUE(graphs[1].launch(other->handle()));
    if (i % (kTimes / kLooks) != 0) continue;
    ASSERT_TRUE(stream_->synchronize());
    ASSERT_TRUE(other->synchronize());
    for (std::size_t g = 0; g < 2; ++g) {
      GemmOnGpu& call = g == 0 ? first : second;
      ASSERT_TRUE(call.device->download(call.after, stream_->handle()));
      ASSERT_EQ(call.after.all.back().values(), alone[g]) << "graph " << g << ", launch " << i;
    }
  }
}

TEST_F(CudaGemm, GradientsRunOnTheDeviceToo) {
  GemmOnGpu forward("m=96 n=160 k=128 dtype=bf16 layout=nt", *stream_);
  GemmOnGpu grad_a("m=96 n=128 k=160 dtype=bf16 layout=nn", *stream_);  // dA = dC * B
  GemmGradArgs args;
  args.forward = forward.args;
  args.forward.b = grad_a.args.b;
  args.grad_c = grad_a.args.a;
  args.grad = grad_a.args.c;
  ASSERT_TRUE(gemm_grad_a(args, stream_->view()));
  EXPECT_EQ(grad_a.judge_now(), "");
}

// Median over batches of the host time of one call, while the device keeps up.
double host_seconds(const gpu::Stream& stream, const std::function<Status()>& call) {
  constexpr int kBatch = 200, kBatches = 40;
  std::vector<double> each;
  for (int b = 0; b < kBatches; ++b) {
    EXPECT_TRUE(stream.synchronize());
    const auto start = Clock::now();
    for (int i = 0; i < kBatch; ++i) EXPECT_TRUE(call());
    each.push_back(std::chrono::duration<double>(Clock::now() - start).count() / kBatch);
  }
  std::sort(each.begin(), each.end());
  return each[each.size() / 2];
}

TEST_F(CudaGemm, AWarmCallCostsTheHostAFewMicrosecondsOverTheBareLaunch) {
  GemmOnGpu call("m=128 n=128 k=64 dtype=bf16 layout=nt", *stream_);
  const ops::KernelRequest probe{"ops/matmul/cuda_simt.cu",
                                 {"RIDGE_TYPE_A=kBf16", "RIDGE_TYPE_B=kBf16", "RIDGE_TYPE_C=kBf16", "RIDGE_MAJOR_A=kK",
                                  "RIDGE_MAJOR_B=kK", "RIDGE_STORE=kOverwrite"},
                                 "ridge_gemm_simt"};
  const auto kernel = ops::device_kernel(the_device(), probe);
  ASSERT_TRUE(kernel) << kernel.error().text();
  // The same kernel bare: its parameters are laid out once, the call is the launch alone.
  void *a = call.args.a.data, *b = call.args.b.data;
  std::int64_t row = 64, k = 64;
  struct {
    void* data;
    std::int64_t stride;
    std::uint32_t rows, cols;
  } output{call.args.c.data, 128, 128, 128};
  std::array<std::int64_t, 4> scales{}, extra{};
  const std::array<void*, 8> arguments = {&a, &b, &row, &row, &k, &output, &scales, &extra};
  gpu::LaunchShape shape;
  shape.block.x = 256;
  const double bare = host_seconds(*stream_, [&] { return kernel->launch(shape, arguments, stream_->handle()); });
  for (const char* name : {"cuda_simt", "cuda_wgmma", "cuda_cublaslt"}) {
    ASSERT_TRUE(dispatch::force("gemm", name));
    if (!gemm(call.args, stream_->view())) continue;
    const double whole = host_seconds(*stream_, [&] { return gemm(call.args, stream_->view()); });
    std::printf("host time of one warm call: %s %.2f us, bare launch %.2f us, difference %.2f us\n", name, whole * 1e6,
                bare * 1e6, (whole - bare) * 1e6);
    if (std::string_view(name) != "cuda_cublaslt") {
      EXPECT_LT(whole - bare, 3e-6) << name;
    }
  }
}

// A described kernel's plan is prepared once; a warm call writes addresses, scalars and tensor maps into it, which take
// about a microsecond each.
TEST(CudaOps, AWarmCallOfADescribedKernelCostsLittleOverItsLaunches) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  struct Described {
    const char *text, *source;
    double limit;
  };
  for (const Described& one : {Described{"quantize scaling=1x128 copies=both", "ops/quantize/cuda_quantize.cu", 2e-6},
                               Described{"quantize scaling=row copies=both", "ops/quantize/cuda_quantize.cu", 2e-6},
                               Described{"dequantize scaling=1x128", "ops/dequantize/cuda_dequantize.cu", 2e-6},
                               Described{"attention dim=64", "ops/attention/cuda_attention.cu", 6e-6}}) {
    const record::Case requested = *record::parse_case(one.text);
    const ops::Operator& op = **ops::find_operator(requested.op);
    const ops::Problem problem = *op.bind(requested);
    const ops::Implementation& own = **ops::find_implementation(op, "cuda_" + requested.op);
    if (ops::why_not(own, problem, ops::device_info(stream->view()))) continue;
    const Operands host = make_operands(problem, kPacked, 3);
    const auto operands = GpuOperands::upload(the_device(), host, stream->handle());
    ASSERT_TRUE(operands);
    const ops::DescribedKernel& kernel = ops::described_kernel(one.source);
    record::PlanFacts facts = ops::plan_facts(problem, operands->views());
    facts.values["sm_count"] = the_device().info().multiprocessors;
    const ops::KernelBuild build = *kernel.build(0, facts);
    const auto prepared = gpu::PreparedPlan::prepare(
        [&](const record::ResolvedKernel& planned) {
          return ops::device_kernel(the_device(), {build.source, build.defines, planned.symbol, planned.shared_bytes});
        },
        *kernel.resolve(0, facts), the_device().info());
    ASSERT_TRUE(prepared) << prepared.error().text();
    std::vector<void*> addresses;
    for (const TensorView& view : operands->views()) addresses.push_back(view.data);
    const auto bound = prepared->bind(addresses, {});
    ASSERT_TRUE(bound) << bound.error().text();
    ASSERT_TRUE(own.run(problem, operands->views(), stream->view()));
    const double bare = host_seconds(*stream, [&] { return bound->launch(stream->handle()); });
    const double whole = host_seconds(*stream, [&] { return own.run(problem, operands->views(), stream->view()); });
    std::printf("host time of one warm call: %s %.2f us, its launches %.2f us, difference %.2f us\n", one.text,
                whole * 1e6, bare * 1e6, (whole - bare) * 1e6);
    EXPECT_LT(whole - bare, one.limit) << one.text;
  }
}

// One prepared launch serves every scale and every softcap.
TEST(CudaOps, AScalarIsOfItsCallAlone) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const ops::Operator& op = **ops::find_operator("attention");
  const ops::Implementation& own = **ops::find_implementation(op, "cuda_attention");
  const auto check = [&](const char* words, const std::vector<std::vector<double>>& calls) {
    const ops::Problem problem = *op.bind(*record::parse_case(words));
    if (ops::why_not(own, problem, ops::device_info(stream->view()))) return false;
    for (const std::vector<double>& scalars : calls) {
      Operands before = make_operands(problem, kPacked, 7), after = make_operands(problem, kPacked, 7);
      for (const double one : scalars) after.scalars.push_back(record::Scalar::f64(one));
      before.scalars = after.scalars;
      const auto operands = GpuOperands::upload(the_device(), after, stream->handle());
      EXPECT_TRUE(operands);
      EXPECT_TRUE(own.run(problem, {operands->views(), after.scalars}, stream->view()));
      EXPECT_TRUE(operands->download(after, stream->handle()));
      EXPECT_EQ(judge(op, problem, before, after, 7), "") << words << " " << scalars.front() << " " << scalars.back();
    }
    return true;
  };
  if (!check("attention q_len=200 k_len=300 dim=64", {{0.125}, {0.25}, {0.05}, {0.125}})) GTEST_SKIP() << "no kernel";
  // Among them caps that every score is beyond, and one that none is near.
  check("attention q_len=200 k_len=300 dim=64 softcap=1", {{0.125, 30}, {0.25, 0.01}, {0.125, 300}, {0.125, 30}});
  // Scales beside which slopes are far more than scores, and no number over them.
  check("attention q_len=200 k_len=300 dim=64 alibi=1", {{0.125}, {1e-37}, {0.125}});
}

// A call makes its device's context current, and leaves the caller's as it found it.
TEST(CudaOps, TheCallersContextComesBack) {
  const ops::Operator& op = **ops::find_operator("gemm");
  const ops::Problem problem = *op.bind(*record::parse_case("gemm m=64 n=64 k=64 dtype=bf16 layout=nt"));
  const auto buffer = gpu::Buffer::allocate(the_device(), 3 * 64 * 64 * 2);
  ASSERT_TRUE(buffer) << buffer.error().text();
  char* const start = static_cast<char*>(buffer->data());
  GemmArgs args;
  args.a = TensorView::contiguous(start, DType::kBf16, {64, 64});
  args.b = TensorView::contiguous(start + 8192, DType::kBf16, {64, 64});
  args.c = TensorView::contiguous(start + 16384, DType::kBf16, {64, 64});
  args.trans_b = true;
  gpu::set_current_context(nullptr);
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(gemm(args, Stream::cuda(nullptr)));
    EXPECT_EQ(gpu::current_context().value(), nullptr);
  }
  ASSERT_TRUE(the_device().make_current());
  const auto own = gpu::current_context();
  ASSERT_TRUE(gemm(args, Stream::cuda(nullptr)));
  EXPECT_EQ(gpu::current_context(), own);
  EXPECT_TRUE(the_device().synchronize());
}

}  // namespace
}  // namespace ridge::testing
