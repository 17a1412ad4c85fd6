// The library's own gemm for Hopper: cuda_wgmma.cu, built for the configuration that cuda_wgmma_plan.h's cost model
// picks. Wins on everything from a few tiles up whose rows start on 16 bytes; other operands go to cuda_simt.
#include "device/cuda/tensor_map.h"
#include "ops/cuda/kernels.h"
#include "ops/gemm/cuda_call.h"

namespace ridge::ops::gemm {
namespace {

using ridge::cuda::GemmCase;

struct Prepared {
  const gpu::Device* device = nullptr;
  ridge::cuda::WgmmaPlan plan{};
  gpu::Kernel kernel;
  gpu::LaunchShape shape;
  gpu::TensorMapRequest a, b, c;
};

gpu::TensorMapRequest request_of(const ridge::cuda::TensorMapSpec& spec) {
  using ridge::cuda::GemmType;
  gpu::TensorMapRequest request;
  request.dtype = spec.type == GemmType::kBf16 ? DType::kBf16 : spec.type == GemmType::kF16 ? DType::kF16 : DType::kF32;
  request.sizes = {static_cast<std::uint64_t>(spec.inner), static_cast<std::uint64_t>(spec.outer)};
  request.strides_bytes = {0, static_cast<std::uint64_t>(spec.row_bytes)};
  request.box = {static_cast<std::uint32_t>(spec.box_inner), static_cast<std::uint32_t>(spec.box_outer)};
  return request;
}

Result<Prepared> prepare(const Problem& problem, std::span<const TensorView> operands, const gpu::Device& device) {
  const GemmCase g = cuda_case(problem, operands);
  const int multiprocessors = device.info().multiprocessors;
  const auto refusal = ridge::cuda::wgmma_refuses(g);
  const ridge::cuda::WgmmaConfig* config = refusal ? nullptr : ridge::cuda::choose_wgmma(g, multiprocessors);
  if (config == nullptr) {
    return with_hint(make_error(ErrorCode::kUnsupported, "{}: {}", problem.problem_case.text(),
                                refusal.value_or("no configuration of cuda_wgmma fits")),
                     "allow cuda_simt or cuda_cublaslt");
  }
  Prepared ready;
  ready.device = &device;
  ready.plan = ridge::cuda::plan_wgmma(g, *config, multiprocessors);
  ready.shape.grid.x = ready.plan.grid;
  ready.shape.block.x = ready.plan.block;
  ready.shape.cluster.x = ready.plan.cluster;
  ready.shape.shared_bytes = ready.plan.shared_bytes;
  RIDGE_TRY(kernel, device_kernel(device, {"ops/gemm/cuda_wgmma.cu", ready.plan.defines, "ridge_gemm",
                                           ready.plan.shared_bytes, ready.plan.cluster > 8}));
  ready.kernel = std::move(kernel);
  ready.a = request_of(ready.plan.a);
  ready.b = request_of(ready.plan.b);
  ready.c = request_of(ready.plan.c);
  return ready;
}

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  static thread_local PreparedCalls<Prepared> calls;
  const Shape s = shape_of(problem);
  gpu::StreamHandle handle = gpu::handle_of(stream);
  RIDGE_TRY(done, finish_empty(s, operands, handle));
  if (done) return ok_status();
  RIDGE_TRY(ready, calls.get(problem, operands, stream,
                             [&](const gpu::Device& device) { return prepare(problem, operands, device); }));
  RIDGE_CHECK_OK(ready->device->make_current());
  gpu::TensorMap a, b, c;
  RIDGE_CHECK_OK(gpu::encode(ready->a, operands[0].data, a));
  RIDGE_CHECK_OK(gpu::encode(ready->b, operands[1].data, b));
  if (!ready->plan.direct_store) RIDGE_CHECK_OK(gpu::encode(ready->c, operands[2].data, c));
  OutputParameter output{operands[2].data, operands[2].stride[0], static_cast<std::uint32_t>(s.m),
                         static_cast<std::uint32_t>(s.n)};
  ScaleParameter scales;
  EpilogueParameter extra;
  if (ready->plan.residual_is_c) extra = {nullptr, operands[2].data, operands[2].stride[0]};
  struct Tiles {
    std::uint32_t rows, cols, group, group_along;
  } tiles{ready->plan.tile_rows, ready->plan.tile_cols, ready->plan.group, ready->plan.group_along};
  const std::array<void*, 8> arguments = {&a, &b, &c, &output, &tiles, &ready->plan.k_blocks, &scales, &extra};
  return ready->kernel.launch(ready->shape, arguments, handle);
}

Refusal supports(const Problem& problem, const DeviceInfo& device) {
  if (!device.has("wgmma")) return fmt::format("{} ({}) has no wgmma; it needs a Hopper GPU", device.name, device.arch);
  const Shape s = shape_of(problem);
  if (s.dtype == DType::kF32) return "dtype=f32: the matrix unit has no fp32, and TF32 is never chosen silently";
  const int a = operand_alignment(problem, 0), b = operand_alignment(problem, 1);
  if (s.m == 0 || s.n == 0 || s.k == 0) return std::nullopt;
  if (std::min(a, b) < 16) {
    return fmt::format("rows of {} start on multiples of {} bytes; the copy engine needs 16 (pad them)",
                       a <= b ? "A" : "B", std::min(a, b));
  }
  GemmCase g = cuda_case(problem);  // a call may pad its rows: the alignment tells, not the dense stride
  g.lda = padded_row(g.row_a(), s.dtype, a);
  g.ldb = padded_row(g.row_b(), s.dtype, b);
  g.ldc = padded_row(g.row_c(), s.out, operand_alignment(problem, 2));
  g.base_alignment_c = operand_alignment(problem, 2);
  return ridge::cuda::wgmma_refuses(g);
}

}  // namespace

Implementation cuda_wgmma() {
  Implementation own;
  own.name = "cuda_wgmma";
  own.summary = "own kernels on Hopper's matrix units, fed by its copy engine; compiled at run time";
  own.backend = Backend::kCuda;
  own.rank = 0;
  own.supports = supports;
  own.run = run;
  return own;
}

}  // namespace ridge::ops::gemm
