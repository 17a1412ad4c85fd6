// gemm's plain kernel (gemm/cuda_simt.cu) with 8-bit operands: every layout, alignment and granularity, sums in fp32.
// Wins nowhere but where nothing else can run.
#include "ops/gemm_fp8/cuda_call.h"

namespace ridge::ops::gemm_fp8 {
namespace {

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  static thread_local PreparedCalls<gemm::SimtCall> calls;
  const Shape s = shape_of(problem);
  gpu::StreamHandle handle = gpu::handle_of(stream);
  RIDGE_TRY(done, finish_empty_product(operands[kC], s.k, s.accumulate, handle));
  if (done) return ok_status();
  RIDGE_TRY(ready, calls.get(problem, operands, stream, [&](const gpu::Device& device) {
    return gemm::SimtCall::prepare(cuda_case(problem, operands), device);
  }));
  return ready->launch(operands[kA], operands[kB], operands[kC], s.k, scale_parameter(operands), {}, handle);
}

Refusal supports(const Problem& problem, const DeviceInfo& device) {
  const Shape s = shape_of(problem);
  return gemm::simt_refuses(s.m, s.n, device);
}

}  // namespace

Implementation cuda_simt_fp8() {
  Implementation plain;
  plain.name = "cuda_simt_fp8";
  plain.summary = "fp32 multiply-adds, one element at a time: any stride, alignment and scales";
  plain.backend = Backend::kCuda;
  plain.rank = 20;
  plain.supports = supports;
  plain.run = run;
  plain.kernels = [](const Problem& problem, const DeviceInfo&) {
    return std::vector<KernelBuild>{gemm::simt_kernel(cuda_case(problem))};
  };
  return plain;
}

}  // namespace ridge::ops::gemm_fp8
