// Plain fp32 multiply-adds on the GPU (cuda_simt.cu): any shape, stride and alignment. Wins nowhere but where nothing
// else can run.
#include "ops/cuda/kernels.h"
#include "ops/gemm/cuda_call.h"

namespace ridge::ops::gemm {
namespace {

constexpr std::uint32_t kTile = 128, kThreads = 256;
constexpr std::int64_t kMostRowTiles = 65535;

struct Prepared {
  const gpu::Device* device = nullptr;
  gpu::Kernel kernel;
  gpu::LaunchShape shape;
  bool residual_is_c = false;
};

std::vector<std::string> defines(const ridge::cuda::GemmCase& g) {
  using ridge::cuda::name_of;
  return {std::string("RIDGE_TYPE_A=") + name_of(g.type_a),
          std::string("RIDGE_TYPE_B=") + name_of(g.type_b),
          std::string("RIDGE_TYPE_C=") + name_of(g.type_c),
          std::string("RIDGE_MAJOR_A=") + (g.a_mn_major ? "kMn" : "kK"),
          std::string("RIDGE_MAJOR_B=") + (g.b_mn_major ? "kMn" : "kK"),
          std::string("RIDGE_STORE=") + (g.accumulate && !g.residual_is_c() ? "kAdd" : "kOverwrite"),
          std::string("RIDGE_SCALING=") + name_of(g.scaling),
          std::string("RIDGE_BIAS=0"),
          std::string("RIDGE_ACTIVATION=") + name_of(g.activation),
          std::string("RIDGE_RESIDUAL=") + (g.residual_is_c() ? "1" : "0")};
}

Result<Prepared> prepare(const Problem& problem, std::span<const TensorView> operands, const gpu::Device& device) {
  const ridge::cuda::GemmCase g = cuda_case(problem, operands);
  RIDGE_TRY(kernel, device_kernel(device, {"ops/gemm/cuda_simt.cu", defines(g), "ridge_gemm_simt", 0, false}));
  Prepared ready;
  ready.device = &device;
  ready.kernel = std::move(kernel);
  ready.residual_is_c = g.residual_is_c();
  ready.shape.grid = {static_cast<std::uint32_t>(ridge::cuda::ceil_div(g.n, kTile)),
                      static_cast<std::uint32_t>(ridge::cuda::ceil_div(g.m, kTile)), 1};
  ready.shape.block.x = kThreads;
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
  void *a = operands[0].data, *b = operands[1].data;
  std::int64_t row_a = operands[0].stride[0], row_b = operands[1].stride[0], k = s.k;
  OutputParameter output{operands[2].data, operands[2].stride[0], static_cast<std::uint32_t>(s.m),
                         static_cast<std::uint32_t>(s.n)};
  ScaleParameter scales;
  EpilogueParameter extra;
  if (ready->residual_is_c) extra = {nullptr, operands[2].data, operands[2].stride[0]};
  const std::array<void*, 8> arguments = {&a, &b, &row_a, &row_b, &k, &output, &scales, &extra};
  return ready->kernel.launch(ready->shape, arguments, handle);
}

Refusal supports(const Problem& problem, const DeviceInfo& device) {
  const Shape s = shape_of(problem);
  if (device.arch < "sm_90") return fmt::format("{} ({}): built for Hopper and newer", device.name, device.arch);
  if (ridge::cuda::ceil_div(s.m, kTile) > kMostRowTiles || s.n > INT32_MAX) {
    return fmt::format("m={} n={}: at most {} rows and {} columns", s.m, s.n, kMostRowTiles * kTile, INT32_MAX);
  }
  return std::nullopt;
}

}  // namespace

Implementation cuda_simt() {
  Implementation plain;
  plain.name = "cuda_simt";
  plain.summary = "fp32 multiply-adds, one element at a time: any stride and alignment";
  plain.backend = Backend::kCuda;
  plain.rank = 20;
  plain.supports = supports;
  plain.run = run;
  return plain;
}

}  // namespace ridge::ops::gemm
